import { Clock } from './clock.js';
import { DataTree, type Transaction } from './data-tree.js';
import { type SavedSession, Sessions } from './sessions.js';
import type { Znode } from './znode.js';

/** All that outlives a restart, as plain data. */
export interface SavedStore {
  readonly nodes: Map<string, Znode>;
  readonly sessions: readonly SavedSession[];
  readonly lastZxid: number;
  /** Milliseconds by which the clock had leapt. */
  readonly skipped: number;
}

/** The tree, the sessions and the order of writes. */
export class Store {
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

  /** Failed writes take a zxid too. */
  begin(): Transaction {
    return { zxid: ++this.#lastZxid, time: this.clock.time() };
  }

  closeSession(id: bigint): void {
    this.sessions.remove(id);
    this.tree.removeEphemerals(id, this.begin());
  }

  reap(): void {
    for (const path of this.tree.expiredPaths(this.clock.time()))
      this.tree.reap(path, this.begin());
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
