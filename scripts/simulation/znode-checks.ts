import type { FaultWindows } from './fault-windows.js';
import type { History, LeaseRecord } from './history.js';
import { notificationTime, type Setting } from './setting.js';

type SimulatedZnode = import('nestjs-zookeeper/testing').SimulatedZnode;

/*
 * Compares each grant with the znodes that the ensemble has at that moment. The names and the order of the nodes are
 * defined by Curator, so the checks do not depend on the implementation of the recipes.
 */

/** Milliseconds for which a process may hand a lock over to its own callers while other processes wait. */
const HANDOVER_BUDGET = 10;

/** Milliseconds after a grant from which on the holder watches its own node. */
const WATCH_DELAY = 50;

/** The data of a node whose holder is asked to release its lock. */
const REVOKED = '__REVOKE__';

/** Matches the name of a queue node. */
const NODE_NAME = /^(?:.*-)?(lock-|__READ__|__WRIT__|lease-)(\d{10})$/;

interface QueueNode {
  readonly marker: string;
  readonly sequence: number;
  readonly session: string | undefined;
  readonly created: number;
  /** When the holder was asked to release its lock; Infinity for never. */
  readonly revoked: number;
  readonly path: string;
}

/** Checks grants and held leases against the znodes of their locks. */
export class ZnodeChecks {
  /** The time of the first grant of each znode, by its path. */
  readonly #firstGrants = new Map<string, number>();

  constructor(
    private readonly history: History,
    private readonly setting: Setting,
    private readonly faultWindows: FaultWindows,
  ) {}

  /** Checks a grant. To be called at its time, after all events that were due earlier. */
  check(record: LeaseRecord): void {
    const { request, session, incarnation, granted } = record;
    if (request.path === undefined || session === undefined || incarnation.ended <= granted) return;
    const { permits } = request;
    const isPermit = permits !== undefined;
    const queue = this.#queue(isPermit ? `${request.path}/leases` : request.path);
    const own = queue.filter((node) => node.session === session);
    if (own.length === 0) {
      // Another client may have ended the session or deleted the node without the knowledge of the holder.
      const why = this.history.world.sessionIds.includes(session)
        ? 'its session has no node in the queue'
        : 'its session has ended';
      if (!this.#unnoticed(record)) this.#violation(record, why);
    } else if (isPermit) {
      this.#checkPermits(record, queue, own);
    } else if (request.mode === 'read') {
      this.#checkRead(record, queue, own);
    } else {
      this.#checkExclusive(record, queue, own);
    }
  }

  /**
   * Checks that the session and the node of a lease exist. To be called when its holder saw that it holds the lease.
   */
  checkHeld(record: LeaseRecord): void {
    const { request, session, incarnation, key } = record;
    const { world } = this.history;
    if (session === undefined || incarnation.ended <= world.now) return;
    const { path, permits } = request;
    const parent = permits === undefined ? path : `${path}/leases`;
    const exists = parent
      ? world.children(parent).some((znode) => znode.session === session)
      : world.sessionIds.includes(session);
    if (exists || this.#unnoticed(record)) return;
    const what = parent ? 'znode' : 'session';
    this.history.recordViolation(
      'a lease is held only while its znode exists',
      `${incarnation.name} held ${key} although its ${what} did not exist`,
    );
  }

  #checkExclusive(record: LeaseRecord, queue: QueueNode[], own: QueueNode[]): void {
    const mine = own[0]!;
    // The read znode of a holder that just lost its write znode has the number of that one. Its create comes too late, and its
    // process deletes it. If that process took it for a read lock, two leases would overlap.
    const first = queue.find((node) => node === mine || node.created <= mine.created);
    if (first !== mine) {
      if (this.#unnoticed(record)) return;
      return this.#violation(record, `${first!.path} is ahead of ${mine.path}`);
    }
    const since = this.#firstGrantOf(mine.path, record);
    // A request that was made while the znode waited is noticed after its first grant.
    const aware =
      Math.max(mine.revoked, since ?? 0) + WATCH_DELAY + 3 * notificationTime(this.setting);
    if (since !== undefined && record.granted > aware && !this.#disturbed(record)) {
      return this.history.recordViolation(
        'a revoked node is not handed over',
        `${record.incarnation.name} handed ${record.key} over with ${mine.path} after its revocation`,
      );
    }
    const { options, partOfMultiLock } = record.request;
    // A part of a multi-lock may have been acquired before the grant of the multi-lock. A strict caller has its own place, and
    // the znode of the one that it succeeds may still exist.
    if (since === undefined || partOfMultiLock || options.fairness === 'strict') return;
    const notice = notificationTime(this.setting);
    const budget = HANDOVER_BUDGET / record.incarnation.clockRate;
    const waiting = queue.find(
      ({ session, created }) =>
        session !== mine.session &&
        record.granted - Math.max(since, created + notice) > budget + notice,
    );
    if (
      waiting &&
      !this.faultWindows.affects(record.incarnation.name, waiting.created - notice, record.granted)
    ) {
      const waited = Math.round(record.granted - waiting.created);
      this.history.recordViolation(
        'a process hands a lock over for a bounded time while others wait',
        `${record.incarnation.name} handed ${record.key} over although ${waiting.path} had waited for ${waited} ms`,
      );
    }
  }

  #checkRead(record: LeaseRecord, queue: QueueNode[], own: QueueNode[]): void {
    const mine = own.filter(({ marker }) => marker === '__READ__');
    const writers = queue.filter(({ marker }) => marker === '__WRIT__');
    const strict = record.request.options.fairness === 'strict';
    const free = mine.filter((node) =>
      writers.every(
        ({ sequence, session }) =>
          sequence > node.sequence ||
          // A strict reader may succeed a writer whose deletion is under way.
          (session === node.session && (strict || sequence === node.sequence)),
      ),
    );
    if (free.length === 0) {
      if (this.#unnoticed(record)) return;
      return this.#violation(record, 'a write node is ahead of each of its read nodes');
    }
    const { server = 'zookeeper' } = this.setting;
    // A reader is notified, and lists its queue. On other servers than ZooKeeper it also writes, for its fencing token.
    const notice = (server === 'zookeeper' ? 2 : 3) * notificationTime(this.setting);
    // A strict reader has its own znode, and joins no other one.
    if (strict) return;
    // Readers that waited together are granted the lock together. Only a reader that comes after the first grant joins.
    const joined = free.map(({ path }) => this.#firstGrantOf(path, record));
    const waiting = writers.find(
      ({ session, created, sequence }) =>
        session !== record.session &&
        free.every((node, index) => {
          const since = joined[index];
          const known = Math.max(since ?? Infinity, created) + notice;
          return node.sequence < sequence && record.granted > known;
        }),
    );
    if (
      waiting &&
      !this.faultWindows.affects(record.incarnation.name, waiting.created - notice, record.granted)
    ) {
      this.history.recordViolation(
        'no reader joins while a writer waits',
        `${record.incarnation.name} joined the readers of ${record.key} although ${waiting.path} waited`,
      );
    }
  }

  #checkPermits(record: LeaseRecord, queue: QueueNode[], own: QueueNode[]): void {
    // Later nodes of the process may belong to a request that has not been granted yet.
    const last = Math.min(...own.map(({ sequence }) => sequence));
    const before = queue.filter(({ sequence }) => sequence <= last).length;
    if (before > record.request.permits!)
      this.#violation(record, `${before} permits are taken including its first one`);
    if (own.length < record.count && !this.#unnoticed(record)) {
      this.#violation(record, `it has ${own.length} znodes for ${record.count} permits`);
    }
  }

  #disturbed({ incarnation, granted }: LeaseRecord): boolean {
    return this.faultWindows.affects(
      incarnation.name,
      granted - this.setting.sessionTimeout,
      granted,
    );
  }

  /**
   * Returns whether another client deleted a node of the process or ended its session, and it may not know that yet.
   */
  #unnoticed({ incarnation, key, session }: LeaseRecord): boolean {
    const { world, deletions } = this.history;
    const { now } = world;
    const isDeleted = deletions.some(
      (deletion) =>
        deletion.key === key &&
        deletion.session === session &&
        now <= this.faultWindows.deletionNoticed(incarnation.name, deletion.until, now),
    );
    return isDeleted || this.faultWindows.hasUnnoticedLoss(incarnation.name, now);
  }

  /** Returns the time of the first grant of a znode. If this grant is the first, records it and returns undefined. */
  #firstGrantOf(path: string, { granted }: LeaseRecord): number | undefined {
    const since = this.#firstGrants.get(path);
    if (since === undefined) this.#firstGrants.set(path, granted);
    return since;
  }

  #queue(path: string): QueueNode[] {
    return this.history.world
      .children(path)
      .flatMap((znode) => parse(znode) ?? [])
      .sort((a, b) => a.sequence - b.sequence || markerOrder(a) - markerOrder(b));
  }

  #violation({ key, mode, incarnation, token }: LeaseRecord, why: string): void {
    this.history.recordViolation(
      'the znode of a grant is at the head of its queue',
      `${incarnation.name} was granted ${key} (${mode}, token ${token}), but ${why}`,
    );
  }
}

/** Orders nodes of equal numbers: the read node of a downgrade has the number of its write node and comes after it. */
function markerOrder({ marker }: QueueNode): number {
  return marker === '__WRIT__' ? 0 : 1;
}

function parse(znode: SimulatedZnode): QueueNode | undefined {
  const { path, session, created, modified } = znode;
  const name = NODE_NAME.exec(path.slice(path.lastIndexOf('/') + 1));
  if (!name) return undefined;
  return {
    marker: name[1]!,
    sequence: Number(name[2]),
    session,
    created,
    path,
    get revoked() {
      return znode.data.toString() === REVOKED ? modified : Infinity;
    },
  };
}
