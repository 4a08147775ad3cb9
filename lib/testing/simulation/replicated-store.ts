import type { Clock } from '../../embedded/clock.js';
import { DataTree } from '../../embedded/data-tree.js';
import type { Session, Sessions } from '../../embedded/sessions.js';
import { type Change, type ConnectionStore, Store } from '../../embedded/store.js';
import type { Random } from './random.js';
import type { Actor, Scheduler } from './scheduler.js';

/**
 * A committed write, in a linked list. A replica refers to the latest write that it has applied, so that older
 * writes can be garbage-collected.
 */
interface Entry {
  readonly zxid: number;
  apply(tree: DataTree): void;
  next: Entry | undefined;
}

/** The server of a replica. Its process applies the writes of other servers. */
interface Host {
  readonly process: Actor;
}

/**
 * The data of an ensemble: the writes in their order, and a copy of the tree for each server. A server applies all
 * earlier writes before it answers a write or a sync. Otherwise it applies a write of another server after a delay.
 */
export class ReplicatedStore {
  /** The tree and the sessions after all committed writes. */
  readonly committed: Store;
  readonly #replicas: Replica[] = [];
  #latest: Entry;

  constructor(
    tickTime: number,
    readonly scheduler: Scheduler,
    private readonly random: Random,
    /** Bounds of the delay with which a replica applies the writes of others, in milliseconds. */
    private readonly lag: readonly [number, number],
  ) {
    this.committed = new Store(tickTime);
    this.#latest = { zxid: this.committed.lastZxid, apply: () => {}, next: undefined };
  }

  get latest(): Entry {
    return this.#latest;
  }

  replica(host: Host): Replica {
    const replica = new Replica(this, host);
    this.#replicas.push(replica);
    return replica;
  }

  delay(): number {
    return this.#replicas.length === 1 ? 0 : this.random.between(...this.lag);
  }

  /**
   * Commits a write.
   *
   * @param writer the replica that applies the write at once; the others apply it after a delay
   */
  commit<T>(change: Change<T>, writer?: Replica): T {
    let entry: Entry | undefined;
    try {
      return this.committed.write((tree, at) => {
        entry = { zxid: at.zxid, apply: (copy) => void change(copy, at), next: undefined };
        return change(tree, at);
      });
    } finally {
      this.#latest = this.#latest.next = entry!;
      for (const replica of this.#replicas) {
        if (replica === writer) replica.catchUp();
        else replica.catchUpLater();
      }
    }
  }

  closeSession(id: bigint, writer?: Replica): void {
    this.committed.sessions.remove(id);
    this.commit((tree, at) => tree.removeEphemerals(id, at), writer);
  }

  /** Removes empty containers, and nodes whose time to live has passed. */
  reap(): void {
    const { tree, clock } = this.committed;
    for (const path of tree.expiredPaths(clock.time()))
      this.commit((copy, at) => copy.reap(path, at));
  }
}

/** The copy of the data that one server has. */
export class Replica implements ConnectionStore {
  readonly tree = new DataTree();
  #applied: Entry;
  #catchingUp = false;

  constructor(
    private readonly store: ReplicatedStore,
    private readonly host: Host,
  ) {
    this.#applied = store.latest;
  }

  get sessions(): Sessions {
    return this.store.committed.sessions;
  }

  get clock(): Clock {
    return this.store.committed.clock;
  }

  /** The latest transaction that this server has applied. */
  get lastZxid(): number {
    return this.#applied.zxid;
  }

  write<T>(change: Change<T>): T {
    return this.store.commit(change, this);
  }

  sync(): void {
    this.catchUp();
  }

  openSession(timeout: number): Session {
    this.write(() => {});
    return this.sessions.open(timeout, this.clock.now());
  }

  closeSession(id: bigint): void {
    this.store.closeSession(id, this);
  }

  /** Applies all committed writes. */
  catchUp(): void {
    while (this.#applied.next) {
      this.#applied = this.#applied.next;
      try {
        this.#applied.apply(this.tree);
      } catch {
        // The write failed when it was committed too, and changed nothing.
      }
    }
  }

  /** Applies all committed writes before the server serves again. The crash has cancelled a scheduled catch-up. */
  restart(): void {
    this.#catchingUp = false;
    this.catchUp();
  }

  /** Calls {@link catchUp} after a delay. */
  catchUpLater(): void {
    if (this.#catchingUp) return;
    this.#catchingUp = true;
    const { scheduler } = this.store;
    scheduler.schedule(this.host.process, scheduler.time + this.store.delay(), 'message', () => {
      this.#catchingUp = false;
      this.catchUp();
    });
  }
}
