import { OpCode } from '../protocol/index.js';
import type { CutWay, Fault } from './active-faults.js';
import { integer, show } from './options.js';
import { parseSessionId } from './session-id.js';

/**
 * Ends a fault; idempotent, and nothing to do after a restart, which ends them all.
 *
 * @publicApi
 */
export type Undo = () => Promise<void>;

/**
 * Whom a fault concerns.
 *
 * @publicApi
 */
export interface FaultScope {
  /** The session's id in hexadecimal, whichever connection it comes by. Default: every client. */
  session?: string;
}

/** How faults reach the thread. */
export interface FaultLine {
  addFault(id: number, fault: Fault): Promise<void>;
  liftFault(id: number): Promise<void>;
}

const WAYS: ReadonlySet<string> = new Set<CutWay>(['requests', 'replies', 'both']);

/**
 * What goes wrong between an embedded server and its clients, on purpose. Each call resolves once the
 * fault is in force, to a function that ends it; bad options throw a TypeError or RangeError.
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

  constructor(private readonly line: () => FaultLine) {}

  /**
   * The next request of this kind is applied, and its connection breaks before the reply leaves: the
   * client cannot know whether it was. Once; the undo takes it back if it has not struck yet.
   */
  async dropReply({ op, session }: FaultScope & { op: keyof typeof OpCode }): Promise<Undo> {
    if (!Object.hasOwn(OpCode, op)) {
      throw new TypeError(`EmbeddedZooKeeper: op must be one of ZooKeeper's, got ${show(op)}`);
    }
    return this.#add({ kind: 'dropReply', op: OpCode[op], session: sessionOf({ session }) });
  }

  /** New connections are reset at once, those that stand go on: see `dropConnections()`. */
  async refuseConnections(): Promise<Undo> {
    return this.#add({ kind: 'refuse' });
  }

  /** Replies and events leave so many milliseconds late, in their order. */
  async delay(ms: number, scope: FaultScope = {}): Promise<Undo> {
    integer('delay', ms, 0, 0x7fff_ffff);
    return this.#add({ kind: 'delay', ms, session: sessionOf(scope) });
  }

  /**
   * A partition. `requests`: the server does not hear its clients, and so expires their sessions.
   * `replies`: it hears them, and keeps their sessions, but nothing it says arrives, not even that a
   * connection ends. Nothing is lost: the undo lets through what was held back.
   */
  async cut(way: CutWay = 'both', scope: FaultScope = {}): Promise<Undo> {
    if (!WAYS.has(way)) {
      throw new TypeError(
        `EmbeddedZooKeeper: cut must be "requests", "replies" or "both", got ${show(way)}`,
      );
    }
    return this.#add({ kind: 'cut', way, session: sessionOf(scope) });
  }

  async #add(fault: Fault): Promise<Undo> {
    const id = this.#nextId++;
    const line = this.line();
    await line.addFault(id, fault);
    // A thread that has ended took its faults along.
    return () => line.liftFault(id).catch(() => {});
  }
}

function sessionOf({ session }: FaultScope): bigint | undefined {
  return session === undefined ? undefined : parseSessionId(session);
}
