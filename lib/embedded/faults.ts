import { OpCode } from '../protocol/index.js';
import { integer, parseSessionId, show } from './options.js';

/** An injected fault; without a session, it concerns every client. */
export type Fault =
  | { readonly kind: 'dropReply'; readonly op: number; readonly session: bigint | undefined }
  | { readonly kind: 'delay'; readonly ms: number; readonly session: bigint | undefined }
  | { readonly kind: 'cut'; readonly way: CutWay; readonly session: bigint | undefined }
  | { readonly kind: 'refuse' };

/**
 * The direction in which a partition holds back bytes: from the clients, to the clients, or both.
 *
 * @publicApi
 */
export type CutWay = 'requests' | 'replies' | 'both';

/** The faults in force, by the ids under which they are lifted. */
export class ActiveFaults {
  readonly #faults = new Map<number, Fault>();

  add(id: number, fault: Fault): void {
    this.#faults.set(id, fault);
  }

  lift(id: number): void {
    this.#faults.delete(id);
  }

  get refusesConnections(): boolean {
    return [...this.#faults.values()].some(({ kind }) => kind === 'refuse');
  }

  /** Returns whether requests of this session arrive. */
  hears(session: bigint): boolean {
    for (const fault of this.#faults.values()) {
      if (fault.kind === 'cut' && fault.way !== 'replies' && concerns(fault, session)) return false;
    }
    return true;
  }

  /** Returns the milliseconds by which replies are delayed; Infinity while they are held back. */
  replyDelay(session: bigint): number {
    let delay = 0;
    for (const fault of this.#faults.values()) {
      if (fault.kind === 'cut' && fault.way !== 'requests' && concerns(fault, session)) {
        return Infinity;
      }
      if (fault.kind === 'delay' && concerns(fault, session)) delay += fault.ms;
    }
    return delay;
  }

  /** Returns true once for each fault that drops this reply. */
  losesReply(op: number, session: bigint): boolean {
    for (const [id, fault] of this.#faults) {
      if (fault.kind === 'dropReply' && fault.op === op && concerns(fault, session)) {
        return this.#faults.delete(id);
      }
    }
    return false;
  }
}

function concerns(fault: { readonly session: bigint | undefined }, session: bigint): boolean {
  return fault.session === undefined || fault.session === session;
}

/**
 * The clients that a fault concerns.
 *
 * @publicApi
 */
export interface FaultScope {
  /** A session id in hexadecimal. Default: every client. */
  session?: string | undefined;
}

/** The server that the faults are injected into. */
export interface FaultTarget {
  addFault(id: number, fault: Fault): void | Promise<void>;
  liftFault(id: number): void | Promise<void>;
}

/**
 * Injects faults between an embedded server and its clients. Each method resolves when the fault is in
 * force, with a function that ends it. A second call does nothing, and a restart ends all faults. A method rejects with a
 * TypeError or RangeError for a wrong option.
 *
 * ```ts
 * await zookeeper.faults.dropReply({ op: 'create' });
 * const restore = await zookeeper.faults.cut('replies', { session });
 * await restore();
 * ```
 *
 * @publicApi
 */
export class Faults {
  #nextId = 1;

  constructor(private readonly target: () => FaultTarget) {}

  /**
   * Applies the next request of this kind and breaks its connection before the reply is sent, so the client
   * cannot know whether the request was applied. Happens once; the undo cancels it if it has not happened yet.
   */
  async dropReply({
    op,
    session,
  }: FaultScope & { op: keyof typeof OpCode }): Promise<() => Promise<void>> {
    if (!Object.hasOwn(OpCode, op)) {
      throw new TypeError(`EmbeddedZooKeeper: op must be one of ZooKeeper's, got ${show(op)}`);
    }
    return this.#add({ kind: 'dropReply', op: OpCode[op], session: sessionOf({ session }) });
  }

  /** Resets new connections at once. Existing connections continue; see `dropConnections()`. */
  async refuseConnections(): Promise<() => Promise<void>> {
    return this.#add({ kind: 'refuse' });
  }

  /** Sends replies and watch events `ms` milliseconds late, in order. */
  async delay(ms: number, scope: FaultScope = {}): Promise<() => Promise<void>> {
    integer('delay', ms, 0, 0x7fff_ffff);
    return this.#add({ kind: 'delay', ms, session: sessionOf(scope) });
  }

  /**
   * A partition. `requests`: the server receives nothing from its clients, and expires their sessions.
   * `replies`: the server receives requests and keeps the sessions, but nothing it sends arrives, not even
   * the end of a connection. Nothing is lost: the undo delivers what was held back.
   */
  async cut(way: CutWay = 'both', scope: FaultScope = {}): Promise<() => Promise<void>> {
    checkWay('EmbeddedZooKeeper: cut', way);
    return this.#add({ kind: 'cut', way, session: sessionOf(scope) });
  }

  async #add(fault: Fault): Promise<() => Promise<void>> {
    const id = this.#nextId++;
    const target = this.target();
    await target.addFault(id, fault);
    return async () => {
      try {
        await target.liftFault(id);
      } catch {
        // The faults of a thread that has ended are gone.
      }
    };
  }
}

/** @param name the option, as the message of the TypeError names it */
export function checkWay(name: string, way: unknown): void {
  if (way === 'requests' || way === 'replies' || way === 'both') return;
  throw new TypeError(`${name} must be "requests", "replies" or "both", got ${show(way)}`);
}

export function sessionOf({ session }: FaultScope): bigint | undefined {
  return session === undefined ? undefined : parseSessionId(session);
}
