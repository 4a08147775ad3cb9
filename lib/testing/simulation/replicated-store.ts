import { DataTree } from '../../embedded/data-tree.js';
import type { ServerProfile } from '../../embedded/profiles.js';
import type { Session, Sessions } from '../../embedded/store.js';
import {
  type Change,
  type Clock,
  type ConnectionStore,
  credentialsOf,
  Store,
} from '../../embedded/store.js';
import type { Random } from './random.js';
import type { Actor, Scheduler } from './scheduler.js';

/**
 * An entry of the log, a linked list of committed writes. A replica refers to the last entry that it has applied, so
 * that older entries can be garbage-collected.
 */
interface LogEntry {
  readonly zxid: number;
  apply(tree: DataTree): void;
  next: LogEntry | undefined;
}

/** The server of a replica. */
interface ReplicaServer {
  /** The process that applies the writes of other servers. */
  readonly process: Actor;
  /** Whether the server reaches the leader. Otherwise its replica does not change, and it extends no session. */
  readonly reachesLeader: boolean;
}

/**
 * The data of an ensemble: the log of all writes, and a copy of the tree for each server. A server applies all earlier
 * writes before it replies to a write or a sync. Otherwise it applies the writes of other servers after a delay.
 */
export class ReplicatedStore {
  /** The tree and the sessions after all committed writes. */
  readonly committed: Store;
  readonly #replicas: Replica[] = [];
  #latest: LogEntry;

  constructor(
    tickTime: number,
    readonly scheduler: Scheduler,
    private readonly random: Random,
    /** The minimum and maximum delay after which a replica applies the writes of others, in milliseconds. */
    private readonly lag: readonly [min: number, max: number],
    readonly profile: ServerProfile,
  ) {
    this.committed = new Store(profile, tickTime);
    this.#latest = { zxid: this.committed.lastZxid, apply: () => {}, next: undefined };
  }

  /** The last entry of the log. */
  get latest(): LogEntry {
    return this.#latest;
  }

  /** Adds the replica of a server. */
  addReplica(server: ReplicaServer): Replica {
    const replica = new Replica(this, server);
    this.#replicas.push(replica);
    return replica;
  }

  /** Draws the delay after which a replica applies a write, in milliseconds. */
  randomLag(): number {
    return this.#replicas.length === 1 ? 0 : this.random.between(...this.lag);
  }

  /**
   * Commits a write.
   *
   * @param writer the replica that applies the write at once; the others apply it after a delay
   */
  commit<T>(change: Change<T>, writer?: Replica): T {
    let entry: LogEntry | undefined;
    let result: T;
    try {
      result = this.committed.write((tree, at) => {
        const apply = (copy: DataTree) => {
          const applied = change(copy, at);
          // The writer replies with the stats of its own copy.
          if (copy === writer?.tree) result = applied;
        };
        entry = { zxid: at.zxid, apply, next: undefined };
        return change(tree, at);
      });
    } finally {
      this.#latest = this.#latest.next = entry!;
      for (const replica of this.#replicas) {
        if (replica === writer) replica.catchUp();
        else replica.catchUpLater();
      }
    }
    return result;
  }

  closeSession(id: bigint, writer?: Replica): void {
    this.committed.sessions.remove(id);
    this.commit((tree, at) => tree.removeEphemerals(id, at), writer);
  }

  /** Deletes empty containers, and nodes whose time to live has passed. */
  deleteExpiredNodes(): void {
    const { tree, clock } = this.committed;
    for (const path of tree.expiredPaths(clock.time()))
      this.commit((copy, at) => copy.reap(path, at));
  }
}

/** The copy of the tree on one server. */
export class Replica implements ConnectionStore {
  readonly tree: DataTree;
  #applied: LogEntry;
  #catchingUp = false;
  /** The number of faults that keep it behind. */
  #delays = 0;

  constructor(
    private readonly store: ReplicatedStore,
    private readonly server: ReplicaServer,
  ) {
    this.tree = new DataTree(store.profile);
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
    const credentials = credentialsOf(this.store.profile, this.lastZxid);
    return this.sessions.open(timeout, this.clock.now(), credentials);
  }

  touchSession(session: Session, timeout: number): void {
    if (this.server.reachesLeader) this.sessions.touch(session, timeout, this.clock.now());
  }

  closeSession(id: bigint): void {
    this.store.closeSession(id, this);
  }

  /** Applies all committed writes, if the server reaches the leader. */
  catchUp(): void {
    if (!this.server.reachesLeader) return;
    while (this.#applied.next) {
      this.#applied = this.#applied.next;
      try {
        this.#applied.apply(this.tree);
      } catch {
        // The write failed when it was committed too, and changed nothing.
      }
    }
  }

  /** Applies all committed writes when the server restarts. The crash has cancelled a scheduled catch-up. */
  restart(): void {
    this.#catchingUp = false;
    this.catchUp();
  }

  /** Applies no write of other servers by itself until the returned function is called. */
  fallBehind(): () => void {
    this.#delays++;
    return () => {
      this.#delays--;
      this.catchUpLater();
    };
  }

  /** Calls {@link catchUp} after a delay. */
  catchUpLater(): void {
    if (this.#catchingUp || this.#delays > 0) return;
    this.#catchingUp = true;
    const { scheduler } = this.store;
    scheduler.schedule(
      this.server.process,
      scheduler.time + this.store.randomLag(),
      'message',
      () => {
        this.#catchingUp = false;
        if (this.#delays === 0) this.catchUp();
      },
    );
  }
}
