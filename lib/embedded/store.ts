// Fake timers of test runners replace the global `performance`: time that a test skips must not end a session.
import { performance } from 'node:perf_hooks';
import { DataTree, type Transaction } from './data-tree.js';
import { type SavedSession, type Session, Sessions } from './sessions.js';
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

/** The state that survives a restart, as plain data. */
export interface SavedStore {
  readonly nodes: Map<string, Znode>;
  readonly sessions: readonly SavedSession[];
  readonly lastZxid: number;
  /** Milliseconds by which the clock has been advanced. */
  readonly skipped: number;
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

  constructor(tickTime: number, saved?: SavedStore) {
    this.tree = new DataTree(saved?.nodes);
    this.clock = new Clock(saved?.skipped);
    this.sessions = new Sessions(tickTime, this.clock.now(), saved?.sessions);
    // Fencing tokens are derived from zxids: a new server must start above the zxids of earlier ones.
    this.lastZxid = saved?.lastZxid ?? Date.now() * 1024;
  }

  /** Applies a change in its own transaction. A failed change takes a zxid too. */
  write<T>(change: Change<T>): T {
    return change(this.tree, { zxid: ++this.lastZxid, time: this.clock.time() });
  }

  /** Applies the writes that other servers have committed; there are none. */
  sync(): void {}

  /** @param timeout milliseconds, as negotiated */
  openSession(timeout: number): Session {
    this.write(() => {});
    return this.sessions.open(timeout, this.clock.now());
  }

  /** @param timeout milliseconds, as negotiated for the current connection of the session */
  touchSession(session: Session, timeout: number): void {
    this.sessions.touch(session, timeout, this.clock.now());
  }

  closeSession(id: bigint): void {
    this.sessions.remove(id);
    this.write((tree, at) => tree.removeEphemerals(id, at));
  }

  reap(): void {
    for (const path of this.tree.expiredPaths(this.clock.time())) {
      this.write((tree, at) => tree.reap(path, at));
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
