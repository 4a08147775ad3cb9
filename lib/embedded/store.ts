import { DataTree, type Transaction } from './data-tree.js';
import { type SavedSession, Sessions } from './sessions.js';
import type { Znode } from './znode.js';

/** All that outlives a restart, as plain data. */
export interface SavedStore {
  readonly nodes: Map<string, Znode>;
  readonly sessions: readonly SavedSession[];
  readonly lastZxid: number;
}

/** The tree, the sessions and the order of writes. */
export class Store {
  readonly tree: DataTree;
  readonly sessions: Sessions;
  #lastZxid: number;

  constructor(tickTime: number, saved?: SavedStore) {
    this.tree = new DataTree(saved?.nodes);
    this.sessions = new Sessions(tickTime, performance.now(), saved?.sessions);
    // Fencing tokens are made of zxids: a new server must begin above all that earlier ones gave out.
    this.#lastZxid = saved?.lastZxid ?? Date.now() * 1024;
  }

  get lastZxid(): number {
    return this.#lastZxid;
  }

  /** Failed writes take a zxid too. */
  begin(): Transaction {
    return { zxid: ++this.#lastZxid, time: Date.now() };
  }

  closeSession(id: bigint): void {
    this.sessions.remove(id);
    this.tree.removeEphemerals(id, this.begin());
  }

  reap(): void {
    for (const path of this.tree.expiredPaths(Date.now())) this.tree.reap(path, this.begin());
  }

  save(): SavedStore {
    return { nodes: this.tree.nodes, sessions: this.sessions.save(), lastZxid: this.#lastZxid };
  }
}
