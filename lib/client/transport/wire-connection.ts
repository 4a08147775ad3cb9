import { setImmediate } from 'node:timers';
import {
  AuthPacket,
  ConnectRequest,
  ErrorCode,
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
import type { NodeEvent } from './transport.js';
import {
  KnownDirectories,
  readGroup,
  takeGroup,
  type WireRequest,
  writeGroup,
} from './wire-group.js';
import { type ConnectResponse, NODE_EVENTS, readConnectResponse } from './wire-replies.js';

/** Bytes. ZooKeeper does not limit the list of a znode's children; this limit protects the memory from a broken peer. */
const MAX_REPLY = 256 * 1024 * 1024;
const LAST_XID = 2 ** 31 - 1;
/** How long a server may take to confirm the end of a session, milliseconds. */
const CLOSE_LIMIT = 1000;

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

interface WireEvents {
  connectResponse(response: ConnectResponse): void;
  /** The reply to one authenticate(). */
  authenticated(code: number): void;
  watched(event: NodeEvent, path: string): void;
  /** Called once at the end of the stream, unless drop() was called. Unanswered requests fail right after it. */
  down(cause: Error | undefined): void;
}

/** A frame that was sent and has no reply: a request, or a group. */
interface Pending {
  readonly xid: number;
  readonly sent: WireRequest | readonly WireRequest[];
}

/** The group under way, see wire-group.ts. */
interface Group {
  readonly requests: readonly WireRequest[];
  /** The reads behind it, whose replies have not arrived. */
  readonly reads: Set<WireRequest>;
  /** If it failed: the requests that will be sent again. */
  repeats: WireRequest[] | undefined;
}

/**
 * ZooKeeper's protocol over one stream of bytes. Requests that are made in one turn of the event loop are
 * sent together, creates and deletes as a group; replies arrive in the order in which the requests were sent. A
 * violation of the protocol ends the connection.
 *
 * Requests and replies are written and read field by field, without the records of lib/protocol: a
 * record costs an object and a call per field.
 */
export class WireConnection {
  /** The latest transaction in any reply. */
  lastZxid = 0;
  readonly #splitter = new FrameSplitter(MAX_REPLY);
  readonly #writer = new Writer();
  /** The requests that were not sent yet. */
  #queue: WireRequest[] = [];
  /** What was sent and has no reply, in its order. */
  #pending: Pending[] = [];
  #group: Group | undefined;
  #knowsMulti = true;
  readonly #known = new KnownDirectories();
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

  /** Sends a request. Returns false if it will never be sent; its `reply` is then never called. */
  request(request: WireRequest): boolean {
    if (this.#state !== 'open' || this.stream.destroyed) return false;
    this.#queue.push(request);
    this.#flushSoon();
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
      const write = () => {};
      if (!this.request({ type: OpCode.closeSession, reply: settle, write, read: undefined })) {
        settle(ErrorCode.connectionLoss);
      } else this.#state = 'closing';
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
    this.#flushSoon();
  }

  #flushSoon(): void {
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
    this.#sendQueue();
    const bytes = this.#writer.take();
    if (bytes.length > 0) this.stream.write(bytes);
  }

  #sendQueue(): void {
    if (this.#group || this.#queue.length === 0) return;
    const taken = this.#knowsMulti ? takeGroup(this.#queue, this.#known) : undefined;
    if (taken) {
      const { group: requests, behind } = taken;
      const reads = new Set(behind.filter(({ path }) => path === undefined));
      this.#group = { requests, reads, repeats: undefined };
      this.#send(OpCode.multi, requests);
      for (const request of behind) this.#send(request.type, request);
    } else {
      const queue = this.#queue;
      this.#queue = [];
      for (const request of queue) this.#send(request.type, request);
    }
  }

  #send(type: number, sent: WireRequest | readonly WireRequest[]): void {
    const xid = (this.#xid = this.#xid === LAST_XID ? 1 : this.#xid + 1);
    const to = this.#writer;
    const frame = to.beginFrame();
    to.int(xid);
    to.int(type);
    if ('write' in sent) sent.write(to);
    else writeGroup(sent, to);
    to.endFrame(frame);
    this.#pending.push({ xid, sent });
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
    const { sent } = next;
    if ('write' in sent) this.#onReply(sent, code, from);
    else this.#onGroupReply(sent, code, from);
  }

  #onReply(request: WireRequest, code: number, from: Reader): void {
    const { type, path, read, reply } = request;
    const group = this.#group;
    if (group?.repeats && group.reads.delete(request)) {
      this.#pending.shift();
      group.repeats.push(request);
      if (group.reads.size === 0) this.#repeat(group.repeats);
      return;
    }
    // Read before the request leaves the queue: if the reply is malformed, the request fails together
    // with the connection.
    const result = code === ErrorCode.ok ? read?.(from) : undefined;
    this.#pending.shift();
    if (path !== undefined && type !== OpCode.delete) this.#known.created(type, path, code);
    reply(code, result);
  }

  #onGroupReply(requests: readonly WireRequest[], code: number, from: Reader): void {
    const group = this.#group!;
    const results = code === ErrorCode.ok ? readGroup(requests, from) : undefined;
    this.#pending.shift();
    if (!results) {
      if (code === ErrorCode.unimplemented) this.#knowsMulti = false;
      group.repeats = [...requests];
      if (group.reads.size === 0) this.#repeat(group.repeats);
      return;
    }
    this.#group = undefined;
    if (this.#queue.length > 0) this.#flushSoon();
    requests.forEach(({ reply }, i) => reply(ErrorCode.ok, results[i]));
  }

  /** Sends the requests of a group that failed, and the reads behind it, one by one. */
  #repeat(requests: readonly WireRequest[]): void {
    this.#group = undefined;
    for (const request of requests) this.#send(request.type, request);
    this.#flushSoon();
  }

  #failPending(): void {
    const unanswered = this.#pending.flatMap(({ sent }) => sent);
    const requests = [...(this.#group?.repeats ?? []), ...unanswered, ...this.#queue];
    this.#group = undefined;
    this.#pending = [];
    this.#queue = [];
    for (const { reply } of requests) reply(ErrorCode.connectionLoss, undefined);
  }
}
