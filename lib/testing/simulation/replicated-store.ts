import type { Clock } from '../../embedded/clock.js';
import { DataTree } from '../../embedded/data-tree.js';
import type { Session, Sessions } from '../../embedded/sessions.js';
import { type Change, type ConnectionStore, Store } from '../../embedded/store.js';
import type { Random } from './random.js';
import type { Actor, Scheduler } from './scheduler.js';

/** A committed write. Each replica keeps the latest one that it has applied; garbage collection does the rest. */
interface Entry {
  readonly zxid: number;
  apply(tree: DataTree): void;
  next: Entry | undefined;
}

/** A replica's server, whose process applies what others wrote. */
interface Host {
  readonly process: Actor;
}

/**
 * The data of an ensemble: one order of writes, and for each server a copy of the tree that trails it. A
 * server applies all earlier writes before it answers a write or a sync, and some time later otherwise.
 */
export class ReplicatedStore {
  /** What has been committed. */
  readonly committed: Store;
  readonly #replicas: Replica[] = [];
  #latest: Entry;

  constructor(
    tickTime: number,
    readonly scheduler: Scheduler,
    private readonly random: Random,
    /** Bounds of the time by which a replica trails, in milliseconds. */
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

  /** @param writer applies it at once; the other replicas apply it later */
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

  /** Removes containers that became empty and nodes that outlived their time. */
  reap(): void {
    const { tree, clock } = this.committed;
    for (const path of tree.expiredPaths(clock.time()))
      this.commit((copy, at) => copy.reap(path, at));
  }
}

/** What one server knows of the data. */
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

  /** Applies everything that was committed. */
  catchUp(): void {
    while (this.#applied.next) {
      this.#applied = this.#applied.next;
      try {
        this.#applied.apply(this.tree);
      } catch {
        // It failed when it was committed, and changed nothing then either.
      }
    }
  }

  /** Catches up, as a server does before it serves again. Its crash ended everything that was scheduled. */
  restart(): void {
    this.#catchingUp = false;
    this.catchUp();
  }

  /** Does the same as {@link catchUp} after a delay. */
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
