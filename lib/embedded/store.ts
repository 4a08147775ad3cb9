import { Clock } from './clock.js';
import { DataTree, type Transaction } from './data-tree.js';
import { type SavedSession, type Session, Sessions } from './sessions.js';
import type { Znode } from './znode.js';

/** All that outlives a restart, as plain data. */
export interface SavedStore {
  readonly nodes: Map<string, Znode>;
  readonly sessions: readonly SavedSession[];
  readonly lastZxid: number;
  /** Milliseconds by which the clock had leapt. */
  readonly skipped: number;
}

/** A write, which may be applied to several copies of the tree. */
export type Change<T> = (tree: DataTree, at: Transaction) => T;

/** What a connection uses of a store. */
export interface ConnectionStore {
  /** As far as this server knows it. */
  readonly tree: DataTree;
  readonly sessions: Sessions;
  readonly clock: Clock;
  readonly lastZxid: number;
  write<T>(change: Change<T>): T;
  /** Catches up with what was written on other servers. */
  sync(): void;
  openSession(timeout: number): Session;
  closeSession(id: bigint): void;
}

/** The tree, the sessions and the order of writes. */
export class Store implements ConnectionStore {
  readonly tree: DataTree;
  readonly sessions: Sessions;
  readonly clock: Clock;
  #lastZxid: number;

  constructor(tickTime: number, saved?: SavedStore) {
    this.tree = new DataTree(saved?.nodes);
    this.clock = new Clock(saved?.skipped);
    this.sessions = new Sessions(tickTime, this.clock.now(), saved?.sessions);
    // Fencing tokens are made of zxids: a new server must begin above all that earlier ones gave out.
    this.#lastZxid = saved?.lastZxid ?? Date.now() * 1024;
  }

  get lastZxid(): number {
    return this.#lastZxid;
  }

  /** Applies a change in a transaction of its own. A failed change takes a zxid too. */
  write<T>(change: Change<T>): T {
    return change(this.tree, { zxid: ++this.#lastZxid, time: this.clock.time() });
  }

  /** This server is the only one, so it is never behind. */
  sync(): void {}

  /** @param timeout milliseconds, as negotiated */
  openSession(timeout: number): Session {
    this.write(() => {});
    return this.sessions.open(timeout, this.clock.now());
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
      lastZxid: this.#lastZxid,
      skipped: this.clock.skipped,
    };
  }
}
