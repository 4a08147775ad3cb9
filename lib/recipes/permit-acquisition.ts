import type { Session, Watch, ZkClient } from '../client/index.js';
import { abortable } from '../client/sleep.js';
import { deadHolders } from '../kernel/diagnostics.js';
import { reportDeadHolder } from '../kernel/dead-holder.js';
import { childrenOf } from '../kernel/participants.js';
import type { Grant } from '../kernel/grant.js';
import { inOrder, LEASE, MUTEX_NAMES, type QueueNode, queueOf } from '../kernel/node-names.js';
import { Ownership } from '../kernel/ownership.js';
import type { PermitLimit } from './permit-limit.js';
import { type Listing, type NewNode, protectedCreates } from '../kernel/own-node.js';
import { waitInQueue } from '../kernel/queue.js';
import type { QueuePosition } from '../kernel/queue-position.js';
import { retryAcrossSessions, retryRead } from '../kernel/session-retry.js';
import type { Subject } from '../kernel/types.js';
import type { Waiter } from '../kernel/waiter.js';

/** The number of leases to read at most, to compare the number of permits or to find processes that have ended. */
const MAX_LEASES_READ = 8;

type PermitWaiter = Pick<Waiter<unknown>, 'request' | 'blocked' | 'blockedBriefly' | 'unblocked'>;

/** A request for permits. */
interface PermitRequest {
  readonly subject: Subject;
  readonly count: number;
  /** What the znodes say about the caller. */
  readonly data: Uint8Array;
  /** Aborts when no caller waits for the permits any more. */
  readonly signal: AbortSignal;
  /** The caller, if the request serves a single one; it may be a try. */
  readonly waiter?: PermitWaiter;
  /** As in {@link NewNode}, for each znode in the queue of requests. */
  readonly onNamed?: NewNode['onNamed'];
}

/**
 * Acquires permits of one semaphore. The mutex at `<path>/locks` admits one request at a time over all processes, in the
 * order of arrival.
 */
export class PermitAcquisition {
  /** The parent of the znodes of the mutex. */
  readonly locks: string;
  /** The parent of the znodes of the permits. */
  readonly leases: string;

  constructor(
    readonly client: ZkClient,
    readonly path: string,
    readonly limit: PermitLimit,
  ) {
    this.locks = `${path}/locks`;
    this.leases = `${path}/leases`;
  }

  /** Resolves to the lease znodes of `count` permits. */
  async acquire(request: PermitRequest): Promise<QueuePosition> {
    await this.checkForeignNodes();
    return retryAcrossSessions(this.client, request.signal, async () => {
      const mutex = await this.acquireMutex(request);
      try {
        return await this.acquireInTurn(mutex, request);
      } finally {
        mutex.release();
      }
    });
  }

  /** Whether other requests than our own wait for the mutex. */
  hasContenders(children: readonly string[], own: ReadonlySet<string>): boolean {
    return queueOf({ ...MUTEX_NAMES, parent: this.locks }, children).some(
      ({ name }) => ![...own].some((prefix) => name.startsWith(prefix)),
    );
  }

  /** The number of permits that are held. */
  async taken(): Promise<number> {
    const children = await childrenOf(this.client, this.leases);
    return queueOf({ parent: this.leases, markers: [LEASE] }, children).length;
  }

  /** @throws RecipeConflictError if another recipe uses the path: its holders would not see ours */
  async checkForeignNodes(): Promise<void> {
    const children = await childrenOf(this.client, this.path);
    const others = children.filter((name) => name !== 'locks' && name !== 'leases');
    queueOf({ parent: this.path, markers: [] }, others);
  }

  private async acquireMutex({
    count,
    data,
    onNamed,
    signal,
    waiter,
    subject,
  }: PermitRequest): Promise<Grant> {
    const { client, locks: parent } = this;
    if (waiter?.request.wait === 0 && !(await this.areLeft(count))) {
      waiter.blocked();
      signal.throwIfAborted();
    }
    const position = await waitInQueue({
      client,
      spec: { ...MUTEX_NAMES, parent },
      data,
      signal,
      // While permits are left, even a try waits for the mutex: the request ahead ends soon.
      onBlocked: () => waiter?.blockedBriefly(),
      whyBlocked: (...ahead) => reportDeadHolder(client, subject, ...ahead),
      onNamed,
    });
    waiter?.unblocked();
    return new Ownership(client, 'mutex', parent, position).grant();
  }

  private async areLeft(count: number): Promise<boolean> {
    // The server may lag behind the one that answered a release or set the number of permits.
    const sync = this.client.sync(this.path);
    const [permits, taken] = await Promise.all([this.limit.read(), this.taken(), sync]);
    return permits - taken >= count;
  }

  /** Resolves to undefined if the lease znodes, or the right to ask, are gone. */
  private async acquireInTurn(
    mutex: Grant,
    { count, data, signal, waiter, subject }: PermitRequest,
  ): Promise<QueuePosition | undefined> {
    const { session } = mutex.ownership.position;
    const mode = 'ephemeral-sequential';
    const lease = { parent: this.leases, suffix: LEASE, data, mode } as const;
    const { names, listing } = await protectedCreates(this.client, session, lease, count);
    const nodes = names.map((name) => `${this.leases}/${name}`);
    const attempt = AbortSignal.any([signal, mutex.signal]);
    let granted: Listing | undefined;
    try {
      await this.checkAgreement(listing, names);
      [granted] = await Promise.all([
        this.untilWithinLimit(session, names, waiter, attempt, subject),
        // Again, now that our own znodes exist: of two recipes that start at once, the later one sees the other.
        this.checkForeignNodes(),
      ]);
      // The session may have ended between the two replies.
      if (!session.trusted) granted = undefined;
    } catch (error) {
      // Without the mutex another request may be admitted, so this one starts again behind it.
      if (signal.aborted || !mutex.lost) throw error;
    } finally {
      if (!granted) for (const node of nodes) void session.guaranteedDelete(node);
    }
    // No other request has this zxid, because this request holds the mutex.
    return granted && { session, nodes, zxid: mutex.ownership.position.zxid, children: [] };
  }

  /** Resolves when there are no more lease znodes than permits; undefined if one of `names` is gone. */
  private async untilWithinLimit(
    session: Session,
    names: readonly string[],
    waiter: PermitWaiter | undefined,
    signal: AbortSignal,
    subject: Subject,
  ): Promise<Listing | undefined> {
    for (let round = 0; ; round++) {
      signal.throwIfAborted();
      // A watch on the children, because the end of any lease may admit this request.
      const list = () => session.children(this.leases, { watch: true });
      const listing = await retryRead(this.client, session, list, signal);
      let limit: { value: number; watch: Watch | undefined } | undefined;
      try {
        limit = await this.limit.readAndWatch();
        const present = new Set(listing.children);
        if (!names.every((name) => present.has(name))) return undefined;
        const queue = queueOf({ parent: this.leases, markers: [LEASE] }, listing.children);
        if (queue.length <= limit.value) {
          if (session.trusted) return listing;
          continue;
        }
        waiter?.blocked();
        if (round === 0) void this.reportDeadHolders(session, queue, subject);
        const changes = [listing.watch.fired, ...(limit.watch ? [limit.watch.fired] : [])];
        await abortable(Promise.race(changes), signal);
      } finally {
        listing.watch.remove();
        limit?.watch?.remove();
      }
    }
  }

  private async reportDeadHolders(
    session: Session,
    queue: readonly QueueNode[],
    subject: Subject,
  ): Promise<void> {
    if (!deadHolders.hasSubscribers) return;
    const report = async ({ name }: QueueNode) => {
      const path = `${this.leases}/${name}`;
      const read = await session.get(path);
      reportDeadHolder(this.client, subject, { path, ...read, isFirst: true }, session);
    };
    // A read fails if its lease is released meanwhile, or together with the wait.
    await Promise.allSettled(inOrder(queue).slice(0, MAX_LEASES_READ).map(report));
  }

  /**
   * Compares the number of permits with that of one other lease. One that states a number is enough, because it was
   * compared in the same way before it was granted: all leases that state a number state the same.
   */
  private async checkAgreement(
    listing: Listing | undefined,
    own: readonly string[],
  ): Promise<void> {
    const ours = new Set(own);
    const others = listing?.children.filter((name) => !ours.has(name)) ?? [];
    for (const other of others.slice(0, MAX_LEASES_READ)) {
      if (await this.limit.checkAgainst(`${this.leases}/${other}`)) return;
    }
  }
}
