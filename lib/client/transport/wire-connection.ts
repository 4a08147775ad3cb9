import { setImmediate } from 'node:timers';
import {
  AuthPacket,
  ConnectRequest,
  ErrorCode,
  EventType,
  FrameSplitter,
  OpCode,
  ProtocolError,
  Reader,
  RequestHeader,
  type ValueOf,
  WatcherEvent,
  Writer,
  Xid,
} from '../../protocol/index.js';
import type { Stat } from '../types.js';
import type { NodeEvent, Reply } from './transport.js';

/** Bytes. ZooKeeper does not limit the list of a znode's children; this limit protects the memory from a broken peer. */
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

/** The reply of a server to the connect request. */
export interface ConnectResponse {
  /** The session timeout granted, milliseconds; 0 or less: the server refused the session. */
  readonly timeout: number;
  readonly sessionId: string;
  /** Hexadecimal. */
  readonly password: string;
  readonly readOnly: boolean;
}

interface WireEvents {
  connectResponse(response: ConnectResponse): void;
  /** The reply to one authenticate(). */
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
 * sent together; replies arrive in the order of the requests. A violation of the protocol ends the connection.
 *
 * Requests and replies are written and read field by field, without the records of lib/protocol: a
 * record costs an object and a call per field.
 */
export class WireConnection {
  /** The latest transaction in any reply. */
  lastZxid = 0;
  readonly #splitter = new FrameSplitter(MAX_REPLY);
  readonly #writer = new Writer();
  /** The unanswered requests, in their order. */
  #pending: Pending[] = [];
  #xid = 0;
  #connected = false;
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

  sendConnectRequest(request: ValueOf<typeof ConnectRequest>): void {
    this.#write((to) => ConnectRequest.write(request, to));
  }

  authenticate(userPassword: string): void {
    this.#write((to) => {
      RequestHeader.write({ xid: Xid.auth, type: OpCode.auth }, to);
      AuthPacket.write({ type: 0, scheme: 'digest', auth: Buffer.from(userPassword) }, to);
    });
  }

  /**
   * Sends a request. Returns false if it will never be sent; `reply` is then never called.
   *
   * @param write writes the body of the request
   * @param read reads the body of a reply without an error; absent if its content is not needed
   */
  request<T>(
    type: number,
    reply: Reply<T>,
    write: (to: Writer) => void,
    read?: (from: Reader) => T,
  ): boolean {
    if (this.#state !== 'open' || this.stream.destroyed) return false;
    const xid = (this.#xid = this.#xid === LAST_XID ? 1 : this.#xid + 1);
    this.#write((to) => {
      to.int(xid);
      to.int(type);
      write(to);
    });
    this.#pending.push({ xid, reply: reply as Reply<unknown>, read });
    return true;
  }

  /** Closes the session, then the stream. Resolves to whether the server has confirmed it. */
  async close(): Promise<boolean> {
    const confirmed = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_LIMIT, false);
      const settle = (code: number) => {
        clearTimeout(timer);
        resolve(code === ErrorCode.ok);
      };
      if (!this.request(OpCode.closeSession, settle, () => {})) settle(ErrorCode.connectionLoss);
      else this.#state = 'closing';
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
    if (!this.#connected) {
      this.#connected = true;
      return this.events.connectResponse(readConnectResponse(from));
    }
    const xid = from.int();
    const zxid = from.long();
    const code = from.int();
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
      throw new ProtocolError(`a reply to request ${xid} instead of ${next?.xid ?? 'none'}`);
    }
    // Read before the request leaves the queue: if the reply is malformed, the request fails together
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

function readConnectResponse(from: Reader): ConnectResponse {
  from.int(); // The version of the protocol.
  return {
    timeout: from.int(),
    sessionId: readSessionId(from),
    password: Buffer.from(from.bytes() ?? []).toString('hex'),
    readOnly: from.remaining > 0 && from.bool(),
  };
}

export function readStat(from: Reader): Stat {
  return {
    czxid: from.long(),
    mzxid: from.long(),
    ctime: from.long(),
    mtime: from.long(),
    version: from.int(),
    cversion: from.int(),
    aversion: from.int(),
    ephemeralOwner: readSessionId(from),
    dataLength: from.int(),
    numChildren: from.int(),
    pzxid: from.long(),
  };
}

/** Reads a 64-bit session id as hexadecimal digits without leading zeros. */
function readSessionId(from: Reader): string {
  const high = from.int() >>> 0;
  const low = (from.int() >>> 0).toString(16);
  return high === 0 ? low : high.toString(16) + low.padStart(8, '0');
}
