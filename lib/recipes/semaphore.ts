import type { ZkClient } from '../client/index.js';
import { checkOptions, type Rules, UNCHECKED, wholeNumber } from '../client/validation.js';
import { publishWait } from '../kernel/diagnostics.js';
import type { Grant } from '../kernel/grant.js';
import { holderData } from '../kernel/node-data.js';
import { findLocalQueue, LocalQueue, type LocalQueueSpec } from '../kernel/local-queue.js';
import { LEASE, MUTEX_NAMES, type QueueNode } from '../kernel/node-names.js';
import { Ownership } from '../kernel/ownership.js';
import { type QueueEntry, readQueue } from '../kernel/participants.js';
import { cancelled, connectWithin, NO_WAITERS, type Request, Waiter } from '../kernel/waiter.js';
import { ACQUIRE_RULES, type AcquireOptions, checkAcquire, type Lease } from '../kernel/lease.js';
import { CONSTRUCTOR_RULES, Lock, type LockConstructorOptions } from './lock.js';
import { PermitAcquisition } from './permit-acquisition.js';
import { PermitLimit, type Permits } from './permit-limit.js';

/*
 * Semaphore (Curator's InterProcessSemaphoreV2):
 *
 *   1. Acquire the mutex at `<path>/locks`: one request at a time is admitted, in the order of arrival.
 *   2. Create an ephemeral sequential znode under `<path>/leases` for each permit.
 *   3. When there are no more znodes there than permits, the permits are ours. Release the mutex.
 *   4. Otherwise wait until one of them is deleted, or the number of permits changes, and list again.
 *
 * No other request is admitted meanwhile, so a request gets all of its permits or none. Curator acquires them one by
 * one, so two of its clients that want several can wait for each other forever. A small request never overtakes a large
 * one, which would starve. Permits never linger: an idle permit would starve waiters that need several.
 */

/**
 * The options of the constructor of a {@link Semaphore}.
 *
 * @publicApi
 */
export interface SemaphoreOptions extends LockConstructorOptions {
  /** The number of permits: a number that all users of the path agree on, or a {@link SharedCount}. */
  permits: Permits;
}

const SEMAPHORE_RULES: Rules<SemaphoreOptions> = { ...CONSTRUCTOR_RULES, permits: UNCHECKED };

/**
 * The options of an acquire of permits.
 *
 * @publicApi
 */
export interface PermitOptions extends AcquireOptions {
  /** The number of permits; all are granted or none. Default 1. */
  count?: number | undefined;
}

const PERMIT_RULES: Rules<PermitOptions> = { ...ACQUIRE_RULES, count: wholeNumber(1) };

/**
 * A semaphore on the znode `path`. It shares the path with Curator's `InterProcessSemaphoreV2`. Permits belong to leases
 * and not to a call chain: an acquire inside of another one takes more permits.
 *
 * @publicApi
 */
export class Semaphore extends Lock<PermitOptions> {
  /** @internal */
  override readonly noun: Lock['noun'] = 'semaphore';
  private readonly limit: PermitLimit;
  private readonly acquisition: PermitAcquisition;

  constructor(client: ZkClient, path: string, options: SemaphoreOptions) {
    const { key, reentrant } = checkOptions(options, SEMAPHORE_RULES);
    super(client, path, 'semaphore', { key, reentrant });
    this.limit = new PermitLimit(client, path, options.permits);
    this.acquisition = new PermitAcquisition(client, path, this.limit);
  }

  /** As {@link acquire}, with a lease for each permit, so that they can be released one by one. */
  async acquireEach(options: PermitOptions = {}): Promise<Lease[]> {
    checkAcquire(options, this.acquireRules);
    return this.acquireEachChecked(options);
  }

  /**
   * As {@link acquireEach}, with options that were checked.
   *
   * @internal
   */
  async acquireEachChecked(options: PermitOptions): Promise<Lease[]> {
    const rest = await connectWithin(this, options, (signal) => this.client.session({ signal }));
    const grants = await publishWait(this, () => this.takeEach(this.requestOf(rest)));
    return grants.map((grant) => grant.lease(this.key, options));
  }

  /** Reads the number of free permits. */
  async available(): Promise<number> {
    const value = await this.limit.read();
    return Math.max(0, value - (await this.taken()));
  }

  /** Resolves to the number of permits that all processes hold. */
  protected taken(): Promise<number> {
    return this.acquisition.taken();
  }

  protected override get acquireRules(): Rules<AcquireOptions> {
    return PERMIT_RULES;
  }

  protected override heldByChain(): Grant | undefined {
    return undefined;
  }

  protected override async take(options: PermitOptions): Promise<Grant> {
    const request = this.requestOf(options);
    // Tries, strict callers, and semaphores with a shared number of permits bypass the local queue of the process.
    const { fixed } = this.limit;
    const alone = request.wait === 0 || options.fairness === 'strict' || fixed === undefined;
    const queue = alone
      ? new LocalQueue(this.queueSpec(true))
      : findLocalQueue(this, () => this.queueSpec(false), String(fixed));
    return queue.acquire(request);
  }

  /**
   * Returns the lease znodes and then the requests that wait. A lease znode holds a permit, whatever the number of
   * permits is by now, unless it belongs to the admitted request and there are more lease znodes than permits.
   */
  protected override async entries(): Promise<QueueEntry[]> {
    const { client, acquisition } = this;
    const { locks, leases } = acquisition;
    // In this order: a request that ends between the two listings holds its permits, or its lease znodes are gone.
    const [nodes, queue, value] = await Promise.all([
      readQueue(client, leases, [LEASE]),
      readQueue(client, locks, MUTEX_NAMES.markers),
      this.limit.read(),
      acquisition.checkForeignNodes(),
    ]);
    const [first, ...behind] = queue;
    const asked = first ? await this.leasesOf(`${locks}/${first.name}`, nodes) : new Set();
    const entry = (node: QueueNode, parent: string, waits: boolean): QueueEntry => {
      return { node, parent, state: waits ? 'waiting' : 'holding', mode: 'permit' };
    };
    return [
      ...nodes.map((node) => entry(node, leases, nodes.length > value && asked.has(node))),
      // The admitted request is listed with its lease znodes.
      ...(asked.size > 0 ? behind : queue).map((node) => entry(node, locks, true)),
    ];
  }

  /**
   * Returns the lease znodes that the session of a request created after the request. Two requests of one Curator client
   * cannot be distinguished, so permits that the first one holds may count as requested.
   */
  private async leasesOf(request: string, leases: readonly QueueNode[]): Promise<Set<QueueNode>> {
    const paths = leases.map(({ name }) => `${this.acquisition.leases}/${name}`);
    const [asker, ...stats] = await Promise.all(
      [request, ...paths].map((path) => this.client.exists(path)),
    );
    const ofAsker = leases.filter((_, index) => {
      const stat = stats[index];
      return asker && stat?.ephemeralOwner === asker.ephemeralOwner && stat.czxid > asker.czxid;
    });
    return new Set(ofAsker);
  }

  private requestOf({ count = 1, wait = Infinity, signal, details }: PermitOptions): Request {
    this.limit.checkCount(count);
    const data = holderData(details, this.limit.fixed);
    return { subject: this, wait, signal, data, count, linger: 0 };
  }

  /** @param alone whether the queue serves a single caller */
  private queueSpec(alone: boolean): LocalQueueSpec {
    const { client, path, recipe, limit, acquisition } = this;
    // The beginnings of the names of our own requests.
    const own = new Set<string>();
    return {
      client,
      path,
      recipe,
      queueParent: acquisition.locks,
      shared: false,
      strict: false,
      servesPermits: true,
      hasContenders: (children) => acquisition.hasContenders(children, own),
      acquire: async (waiter, { signal }) => {
        const { count, data, subject } = waiter.request;
        const onNamed = (prefix: string) => void own.add(prefix);
        try {
          const caller = alone ? waiter : undefined;
          const request = { subject, count, data, signal, onNamed, waiter: caller };
          return await acquisition.acquire(request);
        } finally {
          own.clear();
        }
      },
      use: () => limit.addUser(),
    };
  }

  /** Acquires all permits, each with a grant of its own. */
  private takeEach(request: Request): Promise<Grant[]> {
    const { client, path, recipe, limit, acquisition } = this;
    if (request.signal?.aborted) throw cancelled(this, request.signal);
    const endUse = limit.addUser();
    const acquiring = new AbortController();
    const waiter = new Waiter<Grant[]>(request, { remove: () => acquiring.abort(NO_WAITERS) });
    const { count, data } = request;
    const { signal } = acquiring;
    acquisition.acquire({ subject: this, count, data, signal, waiter }).then(
      (position) => {
        let left = position.nodes.length;
        const onEnded = () => {
          if (--left === 0) endUse();
        };
        const grants = position.nodes.map((node) => {
          const own = { ...position, nodes: [node] };
          return new Ownership(client, recipe, path, own, { onEnded }).grant();
        });
        if (!waiter.resolve(grants)) for (const grant of grants) grant.release();
      },
      (error: unknown) => {
        endUse();
        waiter.reject(error);
      },
    );
    return waiter.promise;
  }
}
