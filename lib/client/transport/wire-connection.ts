import { FifoSet } from '../fifo-set.js';
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
import { type Frame, RequestQueue } from './request-queue.js';
import { Group, readMulti, type WireRequest, writeMulti } from './wire-group.js';
import { type ConnectResponse, NODE_EVENTS, readConnectResponse } from './wire-replies.js';

/** Bytes. ZooKeeper's reply to the handshake has about 40. */
const MAX_HANDSHAKE = 1024;
/**
 * Bytes: enough for a list of 200,000 locks, because ZooKeeper does not limit the list of a znode's children. The limit
 * protects the memory from a hostile or broken server.
 */
const MAX_REPLY = 16 * 1024 * 1024;
const LAST_XID = 2 ** 31 - 1;
/** How long a server may take to confirm the end of a session, milliseconds. */
const CLOSE_LIMIT = 1000;
/**
 * A session sends one more group for each millisecond of the round trip, at most {@link MAX_GROUPS}. Without latency, one
 * group at a time is the fastest: meanwhile the next one becomes larger.
 */
const ROUND_TRIP_OF_GROUP = 1;
const MAX_GROUPS = 64;

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

/** A frame that has no reply yet. */
interface Pending extends Frame {
  readonly xid: number;
  /** When it was sent, by `performance.now()`. */
  readonly sentAt: number;
  /** Whether the group that it depends on has failed, so that it was sent again. */
  isRepeated?: boolean;
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
  readonly #splitter = new FrameSplitter(MAX_HANDSHAKE);
  readonly #writer = new Writer();
  readonly #queue = new RequestQueue();
  /** What was sent and has no reply, in its order. */
  readonly #pending = new FifoSet<Pending>();
  /** The shortest time from a request to its reply, milliseconds. */
  #roundTrip: number | undefined;
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
    // It concerns no node, and keeps the session alive: it does not wait behind other requests.
    if (request.type === OpCode.sync) this.#send({ sent: request });
    else this.#queue.add(request);
    this.#flushSoon();
    return true;
  }

  /**
   * Closes the session, then the stream. Requests that were not sent fail. Resolves to whether the server has confirmed
   * it.
   */
  async close(): Promise<boolean> {
    const confirmed = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_LIMIT, false);
      const settle = (code: number) => {
        clearTimeout(timer);
        resolve(code === ErrorCode.ok);
      };
      if (this.#state !== 'open' || this.stream.destroyed) return settle(ErrorCode.connectionLoss);
      this.#state = 'closing';
      const request = { type: OpCode.closeSession, reply: settle, write() {}, read: undefined };
      const unsent = this.#queue.takeAll();
      this.#send({ sent: request });
      this.#flushSoon();
      setImmediate(() => {
        for (const { reply } of unsent) reply(ErrorCode.connectionLoss, undefined);
      });
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
    if (this.#queue.isEmpty) return;
    const latency = Math.floor((this.#roundTrip ?? 0) / ROUND_TRIP_OF_GROUP);
    for (const frame of this.#queue.take(Math.min(1 + latency, MAX_GROUPS))) this.#send(frame);
  }

  #send({ sent, dependsOn }: Frame): void {
    const xid = (this.#xid = this.#xid === LAST_XID ? 1 : this.#xid + 1);
    const to = this.#writer;
    const frame = to.beginFrame();
    to.int(xid);
    if (sent instanceof Group) {
      to.int(OpCode.multi);
      writeMulti(sent.requests, to);
    } else {
      to.int(sent.type);
      sent.write(to);
    }
    to.endFrame(frame);
    this.#pending.add({ xid, sent, dependsOn, sentAt: performance.now() });
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
      this.#splitter.maxLength = MAX_REPLY;
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

    const next = this.#pending.first;
    if (next?.xid !== xid) {
      throw new ProtocolError(`a reply to request ${xid} instead of ${next?.xid ?? 'none'}`);
    }
    const roundTrip = performance.now() - next.sentAt;
    this.#roundTrip = Math.min(this.#roundTrip ?? roundTrip, roundTrip);
    const { sent } = next;
    if (next.isRepeated) this.#pending.delete(next);
    else if (sent instanceof Group) this.#onGroupReply(next, sent, code, from);
    else this.#onReply(next, sent, code, from);
  }

  #onReply(pending: Pending, sent: WireRequest, code: number, from: Reader): void {
    const { type, path, read, reply } = sent;
    // Read before the request leaves the queue: if the reply is malformed, the request fails together
    // with the connection.
    const result = code === ErrorCode.ok ? read?.(from) : undefined;
    this.#pending.delete(pending);
    if (path !== undefined && (type === OpCode.create || type === OpCode.createContainer)) {
      this.#queue.recordCreate(type, path, code);
    }
    reply(code, result);
  }

  #onGroupReply(pending: Pending, group: Group, code: number, from: Reader): void {
    const outcome = code === ErrorCode.ok && readMulti(group.requests, from);
    this.#pending.delete(pending);
    this.#queue.ended(group);
    if (!this.#queue.isEmpty) this.#flushSoon();
    if (outcome && 'results' in outcome) {
      group.requests.forEach(({ reply }, i) => reply(ErrorCode.ok, outcome.results[i]));
    } else {
      if (code === ErrorCode.unimplemented) this.#queue.knowsMulti = false;
      this.#repeat(group);
    }
  }

  /** Sends the requests of a group that failed, and the reads that depend on it, one by one. */
  #repeat(group: Group): void {
    const requests = [...group.requests];
    for (const pending of this.#pending) {
      if (pending.dependsOn !== group || pending.isRepeated) continue;
      pending.isRepeated = true;
      requests.push(pending.sent as WireRequest);
    }
    if (this.#state === 'open') {
      for (const sent of requests) this.#send({ sent });
      this.#flushSoon();
    } else {
      for (const { reply } of requests) reply(ErrorCode.connectionLoss, undefined);
    }
  }

  #failPending(): void {
    const sent = [...this.#pending].filter(({ isRepeated }) => !isRepeated);
    const unanswered = sent.flatMap(({ sent }) => (sent instanceof Group ? sent.requests : sent));
    const requests = [...unanswered, ...this.#queue.takeAll()];
    this.#pending.clear();
    for (const { reply } of requests) reply(ErrorCode.connectionLoss, undefined);
  }
}
