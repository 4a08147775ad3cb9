import {
  AuthPacket,
  type Codec,
  ConnectRequest,
  ConnectResponse,
  Empty,
  ErrorCode,
  EventType,
  FrameSplitter,
  OpCode,
  ProtocolError,
  Reader,
  ReplyHeader,
  RequestHeader,
  type ValueOf,
  WatcherEvent,
  Writer,
  Xid,
} from '../../protocol/index.js';
import type { NodeEvent, Reply } from './transport.js';

/** Bytes. ZooKeeper does not limit the list of a node's children; this limit protects the memory from a broken peer. */
const MAX_REPLY = 256 * 1024 * 1024;
const LAST_XID = 2 ** 31 - 1;
/** How long a server may take to confirm the end of a session, milliseconds. */
const CLOSE_LIMIT = 1000;

const NODE_EVENTS: Readonly<Record<number, NodeEvent | undefined>> = {
  [EventType.created]: 'created',
  [EventType.deleted]: 'deleted',
  [EventType.dataChanged]: 'changed',
  [EventType.childrenChanged]: 'child',
};

/** A bidirectional stream of bytes: the part of a socket that the wire transport uses. */
export interface ByteStream {
  readonly destroyed: boolean;
  readonly writableNeedDrain: boolean;
  write(bytes: Buffer): boolean;
  destroy(error?: Error): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'drain' | 'end' | 'close', listener: () => void): unknown;
}

/** A server's answer to the connect request. Its timeout is 0 or less if the server refuses the session. */
export type Greeting = ValueOf<typeof ConnectResponse>;

interface WireEvents {
  greeted(greeting: Greeting): void;
  /** The answer to one authenticate(). */
  authenticated(code: number): void;
  watched(event: NodeEvent, path: string): void;
  /** Called once at the end of the stream, unless drop() was called. Unanswered requests fail right after it. */
  down(cause: Error | undefined): void;
}

interface Pending {
  readonly xid: number;
  readonly reply: Reply<unknown>;
  readonly read: ((from: Reader) => unknown) | undefined;
}

/**
 * ZooKeeper's protocol over one stream of bytes. Requests that are made in one turn of the event loop are
 * sent together; answers arrive in the order of the requests. A violation of the protocol ends the connection.
 */
export class WireConnection {
  /** The latest transaction in any answer. */
  lastZxid = 0;
  readonly #splitter = new FrameSplitter(MAX_REPLY);
  readonly #writer = new Writer();
  /** The unanswered requests, in their order. */
  #pending: Pending[] = [];
  #xid = 0;
  #greeted = false;
  #state: 'open' | 'closing' | 'over' = 'open';
  #flushing = false;

  constructor(
    private readonly stream: ByteStream,
    private readonly events: WireEvents,
  ) {
    let cause: Error | undefined;
    stream.on('data', (chunk: Buffer) => this.#onData(chunk));
    stream.on('drain', () => this.#flush());
    stream.on('end', () => stream.destroy());
    stream.on('error', (error) => (cause = error));
    stream.on('close', () => {
      if (this.#state === 'over') return;
      this.#state = 'over';
      this.events.down(cause);
      this.#failPending();
    });
  }

  greet(request: ValueOf<typeof ConnectRequest>): void {
    this.#write((to) => ConnectRequest.write(request, to));
  }

  authenticate(digest: string): void {
    this.#write((to) => {
      RequestHeader.write({ xid: Xid.auth, type: OpCode.auth }, to);
      AuthPacket.write({ type: 0, scheme: 'digest', auth: Buffer.from(digest) }, to);
    });
  }

  /**
   * Sends a request. Returns false if it will never be sent; `reply` is then never called.
   *
   * @param read reads the body of an answer without an error; absent if its content is not needed
   */
  request<B, T>(
    type: number,
    format: Codec<B>,
    body: B,
    reply: Reply<T>,
    read?: (from: Reader) => T,
  ): boolean {
    if (this.#state !== 'open' || this.stream.destroyed) return false;
    const xid = (this.#xid = this.#xid === LAST_XID ? 1 : this.#xid + 1);
    this.#write((to) => {
      RequestHeader.write({ xid, type }, to);
      format.write(body, to);
    });
    this.#pending.push({ xid, reply: reply as Reply<unknown>, read });
    return true;
  }

  /** Closes the session, then the stream. Resolves with whether the server has confirmed it. */
  async close(): Promise<boolean> {
    const confirmed = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_LIMIT, false);
      const settle = (code: number) => {
        clearTimeout(timer);
        resolve(code === ErrorCode.ok);
      };
      if (!this.request(OpCode.closeSession, Empty, undefined, settle)) {
        return settle(ErrorCode.connectionLoss);
      }
      this.#state = 'closing';
    });
    this.drop();
    return confirmed;
  }

  /** Closes the stream only. Unanswered requests fail in the next turn of the event loop. */
  drop(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.stream.destroy();
    setImmediate(() => this.#failPending());
  }

  #write(body: (to: Writer) => void): void {
    this.#writer.frame(body);
    if (this.#flushing) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    // While the peer does not read, requests are collected; 'drain' sends them.
    if (this.#state === 'over' || this.stream.writableNeedDrain) return;
    const bytes = this.#writer.take();
    if (bytes.length > 0) this.stream.write(bytes);
  }

  #onData(chunk: Buffer): void {
    try {
      this.#splitter.push(chunk);
      for (let frame; this.#state !== 'over' && (frame = this.#splitter.next());) {
        this.#onFrame(new Reader(frame));
      }
    } catch (error) {
      this.stream.destroy(error as Error);
    }
  }

  #onFrame(from: Reader): void {
    if (!this.#greeted) {
      this.#greeted = true;
      return this.events.greeted(ConnectResponse.read(from));
    }
    const { xid, zxid, err: code } = ReplyHeader.read(from);
    if (zxid > Number.MAX_SAFE_INTEGER) throw new ProtocolError(`a transaction id of ${zxid}`);
    if (zxid > this.lastZxid) this.lastZxid = zxid;
    if (xid === Xid.watchEvent) {
      const { type, path } = WatcherEvent.read(from);
      const event = NODE_EVENTS[type];
      return event && this.events.watched(event, path);
    }
    if (xid === Xid.auth) return this.events.authenticated(code);

    const next = this.#pending[0];
    if (next?.xid !== xid) {
      throw new ProtocolError(`an answer to request ${xid} instead of ${next?.xid ?? 'none'}`);
    }
    // Read before the request counts as answered: if the answer is malformed, the request fails together
    // with the connection.
    const result = code === ErrorCode.ok ? next.read?.(from) : undefined;
    this.#pending.shift();
    next.reply(code, result);
  }

  #failPending(): void {
    const unanswered = this.#pending;
    this.#pending = [];
    for (const { reply } of unanswered) reply(ErrorCode.connectionLoss, undefined);
  }
}
