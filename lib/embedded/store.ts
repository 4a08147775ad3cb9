// Fake timers of test runners replace the global `performance`: time that a test skips must not end a session.
import { performance } from 'node:perf_hooks';
import { sessionPassword } from '../protocol/index.js';
import { type Caller, DataTree, type Transaction } from './data-tree.js';
import type { ServerProfile } from './profiles.js';
import type { Znode } from './znode.js';

/** The server's time, which tests may advance. */
export class Clock {
  /** @param skipped milliseconds by which the clock has been advanced */
  constructor(public skipped = 0) {}

  /** Returns monotonic milliseconds, for session timeouts. */
  now(): number {
    return performance.now() + this.skipped;
  }

  /** Returns milliseconds since 1970, for the times of znodes. */
  time(): number {
    return Date.now() + Math.floor(this.skipped);
  }
}

export interface Session {
  readonly id: bigint;
  readonly password: Uint8Array;
  /** Milliseconds, as negotiated when the session began. */
  readonly timeout: number;
  expiresAt: number;
}

/** The password of a session that does not exist, or that needs none. */
export const NO_PASSWORD: Uint8Array = Buffer.alloc(16);

type SavedSession = Omit<Session, 'expiresAt'>;

/** The sessions and their expiry. Callers pass in the time. */
export class Sessions {
  readonly #byId = new Map<bigint, Session>();
  #nextId: bigint;

  constructor(
    private readonly tickTime: number,
    now: number,
    saved: readonly SavedSession[] = [],
  ) {
    this.#nextId = firstId();
    for (const session of saved) {
      this.#add(session, now);
      if (session.id >= this.#nextId) this.#nextId = session.id + 1n;
    }
  }

  get size(): number {
    return this.#byId.size;
  }

  /** @param credentials the id and the password of the session. Default: those that Apache ZooKeeper would give */
  open(
    timeout: number,
    now: number,
    { id, password }: Pick<Session, 'id' | 'password'> = this.#newCredentials(),
  ): Session {
    return this.#add({ id, password, timeout }, now);
  }

  get(id: bigint): Session | undefined {
    return this.#byId.get(id);
  }

  /** Extends a session. `timeout` is that of its current connection, which may differ from the first one. */
  touch(session: Session, timeout: number, now: number): void {
    // ZooKeeper expires in ticks and rounds up: a session gets up to one tick of grace.
    session.expiresAt = (Math.floor((now + timeout) / this.tickTime) + 1) * this.tickTime;
  }

  /** Restarts the timeout of each session, as a new leader does. */
  touchAll(now: number): void {
    for (const session of this.#byId.values()) this.touch(session, session.timeout, now);
  }

  remove(id: bigint): void {
    this.#byId.delete(id);
  }

  list(): Session[] {
    return [...this.#byId.values()];
  }

  expired(now: number): Session[] {
    return this.list().filter((session) => session.expiresAt <= now);
  }

  save(): SavedSession[] {
    return this.list().map(savedSession);
  }

  #newCredentials(): Pick<Session, 'id' | 'password'> {
    const id = this.#nextId++;
    return { id, password: sessionPassword(id) };
  }

  #add(saved: SavedSession, now: number): Session {
    const session: Session = { ...saved, expiresAt: 0 };
    this.touch(session, session.timeout, now);
    this.#byId.set(session.id, session);
    return session;
  }
}

function savedSession({ id, password, timeout }: Session): SavedSession {
  return { id, password, timeout };
}

/** Returns the id of a session in hexadecimal, as clients and logs write it. */
export function toHex(session: bigint): string {
  return BigInt.asUintN(64, session).toString(16);
}

// ZooKeeper's own scheme, server id 1: a later start never hands out an earlier start's ids.
function firstId(): bigint {
  return (1n << 56n) | (BigInt.asUintN(64, BigInt(Date.now()) << 24n) >> 8n);
}

/** The state that survives a restart, as plain data. */
export interface SavedStore {
  readonly nodes: Map<string, Znode>;
  readonly sessions: readonly SavedSession[];
  readonly lastZxid: number;
  /** Milliseconds by which the clock has been advanced. */
  readonly skipped: number;
}

/** A write as data: a request of a client, or an event of the server itself. */
export type LoggedWrite =
  | { readonly frame: Uint8Array; readonly caller: Caller }
  | { readonly opened: SavedSession }
  | { readonly closed: bigint }
  | { readonly reaped: string };

/** Keeps the writes of a store, so that a later store can start with them. */
export interface TransactionLog {
  /** Keeps a write, which the store applies afterwards. `save` returns the state before it. */
  append(at: Transaction, write: LoggedWrite, save: () => SavedStore): void;
}

/** A write. It may be applied to several copies of the tree. */
export type Change<T> = (tree: DataTree, at: Transaction) => T;

/** The store as a connection uses it. */
export type ConnectionStore = Omit<Store, 'reap' | 'save'>;

/** The tree, the sessions and the order of writes. */
export class Store {
  /** In an ensemble, the tree as this server knows it; another server may be ahead. */
  readonly tree: DataTree;
  readonly sessions: Sessions;
  readonly clock: Clock;
  lastZxid: number;

  constructor(
    profile: ServerProfile,
    tickTime: number,
    saved?: SavedStore,
    private readonly log?: TransactionLog,
  ) {
    this.tree = new DataTree(profile, saved?.nodes);
    this.clock = new Clock(saved?.skipped);
    this.sessions = new Sessions(tickTime, this.clock.now(), saved?.sessions);
    // Fencing tokens are derived from zxids: a new server must start above the zxids of earlier ones.
    const firstZxid = profile.countsZxidsFromOne ? 0 : Date.now() * 1024;
    this.lastZxid = saved?.lastZxid ?? firstZxid;
  }

  /**
   * Applies a change in its own transaction. A failed change takes a zxid too.
   *
   * @param logged the change as data; only a store without a log can do without it
   */
  write<T>(change: Change<T>, logged?: LoggedWrite): T {
    const at = { zxid: this.lastZxid + 1, time: this.clock.time() };
    if (logged) this.log?.append(at, logged, () => this.save());
    this.lastZxid = at.zxid;
    return change(this.tree, at);
  }

  /** Applies the writes that other servers have committed; there are none. */
  sync(): void {}

  /** @param timeout milliseconds, as negotiated */
  openSession(timeout: number): Session {
    const credentials = credentialsOf(this.tree.profile, this.lastZxid + 1);
    const session = this.sessions.open(timeout, this.clock.now(), credentials);
    this.write(() => {}, { opened: savedSession(session) });
    return session;
  }

  /** @param timeout milliseconds, as negotiated for the current connection of the session */
  touchSession(session: Session, timeout: number): void {
    this.sessions.touch(session, timeout, this.clock.now());
  }

  closeSession(id: bigint): void {
    this.write((tree, at) => tree.removeEphemerals(id, at), { closed: id });
    // After the write: the log may save the state before it, in which the ephemerals need their session.
    this.sessions.remove(id);
  }

  reap(): void {
    for (const path of this.tree.expiredPaths(this.clock.time())) {
      this.write((tree, at) => tree.reap(path, at), { reaped: path });
    }
  }

  save(): SavedStore {
    return {
      nodes: this.tree.nodes,
      sessions: this.sessions.save(),
      lastZxid: this.lastZxid,
      skipped: this.clock.skipped,
    };
  }
}

/** Returns the id and the password of a session that is opened at a zxid; undefined for those of Apache ZooKeeper. */
export function credentialsOf(
  { hasPasswords }: ServerProfile,
  zxid: number,
): Pick<Session, 'id' | 'password'> | undefined {
  return hasPasswords ? undefined : { id: BigInt(zxid), password: NO_PASSWORD };
}
