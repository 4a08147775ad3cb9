import { setImmediate } from 'node:timers';
import { ErrorCode, EventType, OpCode, Xid } from '../../protocol/codes.js';
import { FrameSplitter, ProtocolError, Reader, Writer } from '../../protocol/jute.js';
import { foreignText } from '../errors.js';
import { FifoSet } from '../fifo-set.js';
import {
  type Credentials,
  NEW_SESSION,
  type NodeEvent,
  type Reply,
  type RequestKind,
  type RequestOf,
  type ResultOf,
  type Transport,
} from './transport.js';
import { ZNODE_PATH } from '../validation.js';
import { type Frame, Group, RequestQueue } from './wire-queue.js';
import {
  type Call,
  opCodeOf,
  readMulti,
  readResult,
  readSessionId,
  type WireRequest,
  writeBody,
  writeMulti,
} from './wire-requests.js';

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

const NODE_EVENTS: Readonly<Record<number, NodeEvent | undefined>> = {
  [EventType.created]: 'created',
  [EventType.deleted]: 'deleted',
  [EventType.dataChanged]: 'changed',
  [EventType.childrenChanged]: 'child',
};

/** The reply of a server to the connect request. */
export interface ConnectResponse {
  /** 0, or another number if a ClickHouse Keeper or RaftKeeper refuses the connection. */
  readonly protocolVersion: number;
  /** The session timeout granted, milliseconds; 0 or less: the server refused the session. */
  readonly timeout: number;
  readonly sessionId: string;
  /** Hexadecimal. */
  readonly password: string;
  readonly readOnly: boolean;
}

/** Receives what no request has caused, unless close() or destroy() was called before. */
interface WireEvents {
  connectResponse(response: ConnectResponse): void;
  /** The reply to one authenticate(). */
  authenticated(code: number): void;
  watched(event: NodeEvent, path: string): void;
  /** Called at the end of the stream. Unanswered requests fail right after it. */
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
 */
export class WireConnection implements Transport {
  readonly promptClose = true;
  #response: ConnectResponse | undefined;
  #lastZxid = 0;
  readonly #splitter = new FrameSplitter(MAX_HANDSHAKE);
  readonly #writer = new Writer();
  readonly #queue = new RequestQueue();
  /** What was sent and has no reply, in its order. */
  readonly #pending = new FifoSet<Pending>();
  /** The shortest time from a request to its reply, milliseconds. */
  #roundTrip: number | undefined;
  #xid = 0;
  #state: 'open' | 'closing' | 'over' = 'open';
  #flushing = false;

  constructor(
    private readonly stream: ByteStream,
    readonly server: string,
    private readonly events: WireEvents,
  ) {
    let cause: Error | undefined;
    stream.on('data', (chunk: Buffer) => this.#onData(chunk));
    stream.on('drain', () => this.#flush());
    stream.on('end', () => stream.destroy());
    stream.on('error', (error) => (cause = error));
    stream.on('close', () => {
      if (this.#state === 'over') return;
      const isOpen = this.#state === 'open';
      this.#state = 'over';
      if (isOpen) this.events.down(cause);
      this.#failPending();
    });
  }

  sendConnectRequest(
    sessionTimeout: number,
    { id, password, lastZxid = 0 }: Credentials = NEW_SESSION,
  ): void {
    this.#writer.frame((to) => {
      to.int(0); // the version of the protocol
      to.long(lastZxid);
      to.int(sessionTimeout);
      to.bigint(BigInt.asIntN(64, BigInt(`0x${id}`)));
      to.bytes(Buffer.from(password, 'hex'));
      to.bool(false); // a read-only server is not enough
    });
    this.#flushSoon();
  }

  authenticate(userPassword: string): void {
    this.#writer.frame((to) => {
      to.int(Xid.auth);
      to.int(OpCode.auth);
      to.int(0); // unused
      to.text('digest');
      to.bytes(Buffer.from(userPassword));
    });
    this.#flushSoon();
  }

  get credentials(): Credentials {
    const { sessionId, password } = this.#response!;
    return { id: sessionId, password, lastZxid: this.#lastZxid };
  }

  get timeout(): number {
    return this.#response!.timeout;
  }

  request<K extends RequestKind>(request: RequestOf<K>, reply: Reply<ResultOf<K>>): boolean;
  request(request: WireRequest, reply: Reply<unknown>): boolean;
  request(request: WireRequest, reply: Reply<never>): boolean {
    if (this.#state !== 'open' || this.stream.destroyed) return false;
    const call = { request, reply: reply as Reply<unknown> };
    // A sync keeps the session alive: it does not wait behind other requests.
    if (request.kind === 'sync') this.#send({ sent: call });
    else this.#queue.add(call);
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
      const unsent = this.#queue.takeAll();
      this.#send({ sent: { request: { kind: 'closeSession' }, reply: settle } });
      this.#flushSoon();
      setImmediate(() => {
        for (const { reply } of unsent) reply(ErrorCode.connectionLoss, undefined);
      });
    });
    this.destroy();
    return confirmed;
  }

  /** Closes the stream only. Unanswered requests fail in the next turn of the event loop. */
  destroy(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.stream.destroy();
    setImmediate(() => this.#failPending());
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
    const latency = Math.floor((this.#roundTrip ?? 0) / ROUND_TRIP_OF_GROUP);
    for (const frame of this.#queue.take(Math.min(1 + latency, MAX_GROUPS))) this.#send(frame);
    const bytes = this.#writer.take();
    if (bytes.length > 0) this.stream.write(bytes);
  }

  #send({ sent, dependsOn }: Frame): void {
    const xid = (this.#xid = this.#xid === LAST_XID ? 1 : this.#xid + 1);
    const to = this.#writer;
    const frame = to.beginFrame();
    to.int(xid);
    if (sent instanceof Group) {
      to.int(OpCode.multi);
      writeMulti(sent.operations, to);
    } else {
      to.int(opCodeOf(sent.request));
      writeBody(sent.request, to);
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
      this.stream.destroy(this.#response ? (error as Error) : withText(error as Error, chunk));
    }
  }

  #onFrame(from: Reader): void {
    if (!this.#response) {
      this.#splitter.maxLength = MAX_REPLY;
      this.#response = {
        protocolVersion: from.int(),
        timeout: from.int(),
        sessionId: readSessionId(from),
        password: Buffer.from(from.bytes() ?? []).toString('hex'),
        readOnly: from.remaining > 0 && from.bool(),
      };
      return this.events.connectResponse(this.#response);
    }
    const xid = from.int();
    const zxid = from.long();
    const code = from.int();
    if (zxid > Number.MAX_SAFE_INTEGER) throw new ProtocolError(`a transaction id of ${zxid}`);
    if (zxid > this.#lastZxid) this.#lastZxid = zxid;
    if (xid === Xid.watchEvent) {
      const event = NODE_EVENTS[from.int()];
      from.int(); // the state of the connection
      const path = from.text();
      if (event && ZNODE_PATH(path)) throw new ProtocolError(`an event of ${foreignText(path)}`);
      if (event && this.#state === 'open') this.events.watched(event, path);
      return;
    }
    if (xid === Xid.auth) {
      if (this.#state === 'open') this.events.authenticated(code);
      return;
    }

    // The requests behind it are carried out, so the order of a connection would no longer hold.
    if (code === ErrorCode.throttled) throw new ProtocolError('a refusal because of overload');

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

  #onReply(pending: Pending, { request, reply }: Call, code: number, from: Reader): void {
    // Read before the request leaves the queue: if the reply is malformed, the request fails together
    // with the connection.
    const result = code === ErrorCode.ok ? readResult(request, from) : undefined;
    this.#pending.delete(pending);
    if (request.kind === 'create') this.#queue.recordCreate(request, code);
    reply(code, result);
  }

  #onGroupReply(pending: Pending, group: Group, code: number, from: Reader): void {
    const outcome = code === ErrorCode.ok && readMulti(group.operations, from);
    this.#pending.delete(pending);
    this.#queue.ended(group);
    this.#flushSoon();
    if (outcome && 'results' in outcome) {
      group.reply(outcome.results);
    } else {
      if (code === ErrorCode.unimplemented) this.#queue.knowsMulti = false;
      this.#repeat(group);
    }
  }

  /** Sends the requests of a group that failed, and the reads that depend on it, one by one. */
  #repeat(group: Group): void {
    const calls = [...group.calls];
    for (const pending of this.#pending) {
      if (pending.dependsOn !== group || pending.isRepeated) continue;
      pending.isRepeated = true;
      calls.push(pending.sent as Call);
    }
    if (this.#state === 'open') {
      for (const sent of calls) this.#send({ sent });
      this.#flushSoon();
    } else {
      for (const { reply } of calls) reply(ErrorCode.connectionLoss, undefined);
    }
  }

  #failPending(): void {
    const sent = [...this.#pending].filter(({ isRepeated }) => !isRepeated);
    const unanswered = sent.flatMap(({ sent }) => (sent instanceof Group ? sent.calls : sent));
    const calls = [...unanswered, ...this.#queue.takeAll()];
    this.#pending.clear();
    for (const { reply } of calls) reply(ErrorCode.connectionLoss, undefined);
  }
}

/** Characters. */
const MAX_TEXT = 80;

/** Returns an error that quotes the answer of another program, such as an HTTP server, if the answer is a line of text. */
function withText(error: Error, chunk: Buffer): Error {
  const [text] = /^[ -~]{4,}/.exec(chunk.toString('latin1')) ?? [];
  if (text === undefined) return error;
  return new ProtocolError(
    `it is not a ZooKeeper server, and answers "${text.slice(0, MAX_TEXT)}"`,
  );
}
