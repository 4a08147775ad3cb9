import type { Disturbances } from './disturbances.js';
import type { History, LeaseRecord } from './history.js';
import { noticeTime, type Setting } from './setting.js';

type SimulatedZnode = import('nestjs-zookeeper/testing').SimulatedZnode;

/*
 * Compares each grant with the znodes that the ensemble has at that moment. Names and order are those of
 * Curator, so these checks know nothing of how the library comes to a grant.
 */

/** Milliseconds for which a process may hand a lock to its own callers while others wait. */
const HANDOVER_BUDGET = 10;

/** Milliseconds after which a holder watches its own node. */
const WATCHED_AFTER = 50;

/** The data of a node that somebody asked for. */
const REVOKED = '__REVOKE__';

const LOCK = /^(?:.*-)?(lock-|__READ__|__WRIT__|lease-)(\d{10})$/;

interface QueueNode {
  readonly marker: string;
  readonly sequence: number;
  readonly session: string | undefined;
  readonly created: number;
  /** When somebody asked for the lock; Infinity for never. */
  readonly revoked: number;
  readonly path: string;
}

export class ZnodeChecks {
  /** When the first grant by a znode was. */
  readonly #firstGrant = new Map<string, number>();

  constructor(
    private readonly history: History,
    private readonly setting: Setting,
    private readonly disturbances: Disturbances,
  ) {}

  /** To be called at the time of the grant, when everything that was due earlier has happened. */
  check(record: LeaseRecord): void {
    const { request, session, life, granted } = record;
    if (request.path === undefined || session === undefined || life.ended <= granted) return;
    const { permits } = request;
    const isPermit = permits !== undefined;
    const queue = this.#queue(isPermit ? `${request.path}/leases` : request.path);
    const own = queue.filter((node) => node.session === session);
    if (own.length === 0) {
      // Its session may have been ended behind its back, or its node deleted.
      const why = this.history.world.sessionIds.includes(session)
        ? 'its session has no znode there'
        : 'its session is over';
      if (!this.#unnoticed(record)) this.#violation(record, why);
    } else if (isPermit) {
      this.#checkPermits(record, queue, own);
    } else if (request.mode === 'read') {
      this.#checkRead(record, queue, own);
    } else {
      this.#checkExclusive(record, queue, own);
    }
  }

  /** To be called when a holder saw that it holds a lease: its session and its node must exist then. */
  checkHeld(record: LeaseRecord): void {
    const { request, session, life, key } = record;
    const { world } = this.history;
    if (session === undefined || life.ended <= world.now) return;
    const { path, permits } = request;
    const parent = permits === undefined ? path : `${path}/leases`;
    const exists = parent
      ? world.children(parent).some((znode) => znode.session === session)
      : world.sessionIds.includes(session);
    if (exists || this.#unnoticed(record)) return;
    const what = parent ? 'znode' : 'session';
    this.history.violation(
      'a lease is held only while its znode exists',
      `${life.name} held ${key} although its ${what} was gone`,
    );
  }

  #checkExclusive(record: LeaseRecord, queue: QueueNode[], own: QueueNode[]): void {
    const [first] = queue;
    const mine = own[0]!;
    if (first !== mine) {
      if (this.#unnoticed(record)) return;
      return this.#violation(record, `${first!.path} stands before ${mine.path}`);
    }
    const since = this.#since(mine.path, record);
    const aware = mine.revoked + WATCHED_AFTER + 3 * noticeTime(this.setting);
    if (since !== undefined && record.granted > aware && !this.#disturbed(record)) {
      return this.history.violation(
        'a revoked node is not handed over',
        `${record.life.name} handed ${record.key} on by ${mine.path}, which somebody had revoked`,
      );
    }
    // What is taken together with others may have been taken earlier.
    if (since === undefined || record.request.partial) return;
    const notice = noticeTime(this.setting);
    const budget = HANDOVER_BUDGET / record.life.clockRate;
    const waiting = queue.find(
      ({ session, created }) =>
        session !== mine.session &&
        record.granted - Math.max(since, created + notice) > budget + notice,
    );
    if (
      waiting &&
      !this.disturbances.disturb(record.life.name, waiting.created - notice, record.granted)
    ) {
      const waited = Math.round(record.granted - waiting.created);
      this.history.violation(
        'a process hands a lock on for a bounded time while others wait',
        `${record.life.name} handed ${record.key} on although ${waiting.path} waited for ${waited} ms`,
      );
    }
  }

  #checkRead(record: LeaseRecord, queue: QueueNode[], own: QueueNode[]): void {
    const mine = own.filter(({ marker }) => marker === '__READ__');
    const writers = queue.filter(({ marker }) => marker === '__WRIT__');
    const free = mine.filter((node) =>
      writers.every(
        ({ sequence, session }) =>
          sequence > node.sequence || (sequence === node.sequence && session === node.session),
      ),
    );
    if (free.length === 0) {
      if (this.#unnoticed(record)) return;
      return this.#violation(record, 'a write node stands before each of its read nodes');
    }
    const notice = 2 * noticeTime(this.setting);
    // Readers that waited together begin together, so only those who come after the first grant join.
    const joined = free.map(({ path }) => this.#since(path, record));
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
      !this.disturbances.disturb(record.life.name, waiting.created - notice, record.granted)
    ) {
      this.history.violation(
        'no reader joins while a writer waits',
        `${record.life.name} joined the readers of ${record.key} although ${waiting.path} waited`,
      );
    }
  }

  #checkPermits(record: LeaseRecord, queue: QueueNode[], own: QueueNode[]): void {
    // Nodes behind our own may be those of a request that is not granted yet.
    const last = Math.min(...own.map(({ sequence }) => sequence));
    const before = queue.filter(({ sequence }) => sequence <= last).length;
    if (before > record.request.permits!)
      this.#violation(record, `${before} permits are taken up to its own`);
    if (own.length < record.count) {
      this.#violation(record, `${own.length} znodes stand for ${record.count} permits`);
    }
  }

  #disturbed({ life, granted }: LeaseRecord): boolean {
    return this.disturbances.disturb(life.name, granted - this.setting.sessionTimeout, granted);
  }

  /** Whether somebody deleted a node of the process or ended its session, which it may not know yet. */
  #unnoticed({ life }: LeaseRecord): boolean {
    return this.disturbances.unnoticed(life.name, this.history.world.now);
  }

  /** When the first grant by a znode was; undefined where this is the first. */
  #since(path: string, { granted }: LeaseRecord): number | undefined {
    const since = this.#firstGrant.get(path);
    if (since === undefined) this.#firstGrant.set(path, granted);
    return since;
  }

  #queue(path: string): QueueNode[] {
    return this.history.world
      .children(path)
      .flatMap((znode) => parse(znode) ?? [])
      .sort((a, b) => a.sequence - b.sequence || order(a) - order(b));
  }

  #violation({ key, mode, life, token }: LeaseRecord, why: string): void {
    this.history.violation(
      'a grant has its znode at the head of the queue',
      `${life.name} was granted ${key} (${mode}, token ${token}), but ${why}`,
    );
  }
}

/** A reader beside its own writer has the writer's number and comes after it. */
function order({ marker }: QueueNode): number {
  return marker === '__WRIT__' ? 0 : 1;
}

function parse(znode: SimulatedZnode): QueueNode | undefined {
  const { path, session, created, modified } = znode;
  const name = LOCK.exec(path.slice(path.lastIndexOf('/') + 1));
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
