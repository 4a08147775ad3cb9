import {
  AuthPacket,
  type Codec,
  ConnectRequest,
  ConnectResponse,
  type EventType,
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
import type { ByteStream } from './byte-stream.js';
import { Code } from './transport.js';
import type { Stat } from '../types.js';

/** Bytes. A directory's listing has no bound of its own; this one keeps a broken peer from filling the memory. */
const LONGEST_REPLY = 256 * 1024 * 1024;
const LAST_XID = 2 ** 31 - 1;

/** What a server says first. */
export type Greeting = ValueOf<typeof ConnectResponse>;

interface WireEvents {
  greeted(greeting: Greeting): void;
  /** The answer to one of the credentials. */
  authenticated(code: number): void;
  watched(type: EventType, path: string): void;
  /** The stream's end, unless drop() came first. Requests that are unanswered then fail right after it. */
  down(cause: Error | undefined): void;
}

interface Pending<A = unknown> {
  readonly xid: number;
  /** Of an answer without an error. */
  read(from: Reader): A;
  reply(code: number, answer: A | undefined): void;
}

/**
 * ZooKeeper's protocol over one stream of bytes: requests leave together, once a turn, and are
 * answered in their order. What breaks the protocol breaks the connection.
 */
export class WireConnection {
  /** Of the latest transaction that the server told of. */
  lastZxid = 0;
  readonly #splitter = new FrameSplitter(LONGEST_REPLY);
  readonly #writer = new Writer();
  #pending: Pending[] = [];
  /** How many of the pending are through: an array's shift would move all the others. */
  #settled = 0;
  #xid = 0;
  #greeted = false;
  #over = false;
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
    stream.on('close', () => this.#onClose(cause));
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

  /** False where it never leaves; then `reply` is never called. */
  request<Q, A>(
    type: number,
    asking: Codec<Q>,
    question: Q,
    read: Pending<A>['read'],
    reply: Pending<A>['reply'],
  ): boolean {
    if (this.#over || this.stream.destroyed) return false;
    const xid = (this.#xid = this.#xid === LAST_XID ? 1 : this.#xid + 1);
    this.#write((to) => {
      RequestHeader.write({ xid, type }, to);
      asking.write(question, to);
    });
    this.#pending.push({ xid, read, reply });
    return true;
  }

  /** Closes the stream without a word. Unanswered requests fail in the next turn. */
  drop(): void {
    if (this.#over) return;
    this.#over = true;
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
    // What comes while the peer does not read leaves in one piece when it does.
    if (this.#writer.length === 0 || this.#over || this.stream.writableNeedDrain) return;
    this.stream.write(this.#writer.take());
  }

  #onData(chunk: Buffer): void {
    try {
      this.#splitter.push(chunk);
      for (let frame; !this.#over && (frame = this.#splitter.next());) {
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
    const xid = from.int();
    const zxid = from.long();
    const err = from.int();
    if (zxid > Number.MAX_SAFE_INTEGER) throw new ProtocolError(`a transaction id of ${zxid}`);
    if (zxid > this.lastZxid) this.lastZxid = zxid;
    switch (xid) {
      case Xid.watchEvent: {
        const { type, path } = WatcherEvent.read(from);
        return this.events.watched(type as EventType, path);
      }
      case Xid.auth:
        return this.events.authenticated(err);
      default:
        this.#answer(xid, err, from);
    }
  }

  #answer(xid: number, code: number, from: Reader): void {
    const next = this.#pending[this.#settled];
    if (next?.xid !== xid) {
      throw new ProtocolError(`an answer to request ${xid} instead of ${next?.xid ?? 'none'}`);
    }
    // Before it counts as settled: what cannot be read fails with the connection that it breaks.
    const answer = code === Code.Ok ? next.read(from) : undefined;
    if (++this.#settled >= 1024 && this.#settled * 2 > this.#pending.length) {
      this.#pending = this.#pending.slice(this.#settled);
      this.#settled = 0;
    }
    next.reply(code, answer);
  }

  #onClose(cause: Error | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.events.down(cause);
    this.#failPending();
  }

  #failPending(): void {
    const unanswered = this.#pending.slice(this.#settled);
    this.#pending = [];
    this.#settled = 0;
    for (const { reply } of unanswered) reply(Code.ConnectionLoss, undefined);
  }
}

// What a server answers, read straight into what the client hands out.

export function readNothing(): void {}

export function readPath(from: Reader): string {
  return from.text();
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
    ephemeralOwner: hexadecimal(from.bigint()),
    dataLength: from.int(),
    numChildren: from.int(),
    pzxid: from.long(),
  };
}

export function readContent(from: Reader): { data: Buffer; stat: Stat } {
  // A copy: the answer is a view of all that came with it, and would keep that in memory.
  const data = Buffer.from(from.bytes() ?? []);
  return { data, stat: readStat(from) };
}

export function readListing(from: Reader): { children: string[]; stat: Stat } {
  const children = from.vector(readPath);
  return { children, stat: readStat(from) };
}

/** A session's id, as `Stat.ephemeralOwner` has it. */
export function hexadecimal(id: bigint): string {
  return id === 0n ? '0' : BigInt.asUintN(64, id).toString(16);
}
