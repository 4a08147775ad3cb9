import type { ZkClient } from '../client/index.js';
import { checkOptions } from '../client/validation.js';
import { telling } from './diagnostics/publish.js';
import type { Grant } from './internals/grant.js';
import { holderData } from './participants.js';
import type { AcquireOptions, Lease } from './lease.js';
import { Lock, type LockOptions } from './lock.js';
import { childrenOf, type Seat } from './participants.js';
import { DOORS, LEASES, PermitDoor } from './internals/permit-door.js';
import { permitQueueOf, type PermitWant } from './internals/permit-queue.js';
import { PermitLimit, type Permits } from './internals/permits.js';
import { inOrder, type QueueNode, queueOf } from './internals/node-names.js';
import { cancelled, checkAcquire, NOBODY_WAITS, Waiter } from './internals/wait.js';

/*
 * Semaphore (Curator's InterProcessSemaphoreV2):
 *
 *   1. Take the mutex at `<path>/locks`: one at a time asks for permits, in the order of arrival.
 *   2. Create an ephemeral sequential node under `<path>/leases` for each permit wanted.
 *   3. When there are no more nodes there than permits, the permits are ours: give the mutex back.
 *   4. Otherwise wait for any of them to go, or for the number of permits to change, and look again.
 *
 * Nobody else can ask meanwhile, so all permits wanted come together or not at all; Curator takes them
 * one by one, and two of its clients that want several can wait for each other for ever. A small
 * request never overtakes a large one, which would starve.
 */

/**
 * What a {@link Semaphore} takes beside its path.
 *
 * @publicApi
 */
export interface SemaphoreOptions extends LockOptions {
  /** How many there are: a number that all users of the path agree on, or one that they share. */
  permits: Permits;
}

const SEMAPHORE_OPTIONS = [
  'key',
  'reentrant',
  'permits',
] as const satisfies (keyof SemaphoreOptions)[];

/**
 * What an acquire of permits takes.
 *
 * @publicApi
 */
export interface PermitOptions extends AcquireOptions {
  /** How many to take, all or none. Default 1. */
  count?: number;
}

/**
 * A number of permits on the znode `path`, shared with every Curator `InterProcessSemaphoreV2` there.
 * Permits belong to leases, not to a call chain: asking again inside takes more of them.
 *
 * @publicApi
 */
export class Semaphore extends Lock<PermitOptions> {
  override readonly noun: Lock['noun'] = 'semaphore';
  override readonly recipe = 'semaphore';
  private readonly limit: PermitLimit;
  private readonly door: PermitDoor;

  constructor(client: ZkClient, path: string, options: SemaphoreOptions) {
    const { key, reentrant } = checkOptions(options, SEMAPHORE_OPTIONS);
    super(client, path, { key, reentrant });
    this.limit = new PermitLimit(client, path, options?.permits);
    this.door = new PermitDoor(this, this.limit);
  }

  /** As {@link acquire}, with a lease for each permit, to give them back one by one. */
  async acquireEach(options: PermitOptions = {}): Promise<Lease[]> {
    checkAcquire(options);
    await this.client.session({ signal: options.signal });
    const grants = await telling(this, () => this.takePlaces(options, true));
    return grants.map((grant) => grant.lease(this.key, options));
  }

  /** How many permits nobody holds at present. */
  async available(): Promise<number> {
    const value = await this.limit.read();
    return Math.max(0, value - (await this.door.taken()));
  }

  protected override heldByChain(): Grant | undefined {
    return undefined;
  }

  protected override async take(options: PermitOptions): Promise<Grant> {
    const [grant] = await this.takePlaces(options, false);
    return grant!;
  }

  /**
   * Lease nodes in their order, then those who wait to ask. All lease nodes hold, whatever the number of
   * permits is by now, but for those of the one who asks where there are more of them than permits.
   */
  protected override async seats(): Promise<Seat[]> {
    const { queue: door, leases: directory } = this.door;
    // In this order: whoever left the door between the two lists holds, or its lease nodes are gone.
    const [leases, doors, value] = await Promise.all([
      childrenOf(this.client, directory),
      childrenOf(this.client, door),
      this.limit.read(),
      this.door.checkNeighbours(),
    ]);
    const nodes = inOrder(queueOf({ parent: directory, markers: LEASES }, leases));
    const queue = inOrder(queueOf({ parent: door, markers: DOORS }, doors));
    const [first, ...behind] = queue;
    const asked = first ? await this.askedBy(`${door}/${first.name}`, nodes) : new Set();
    return [
      ...nodes.map((node) => ({
        node,
        parent: directory,
        state:
          nodes.length > value && asked.has(node) ? ('waiting' as const) : ('holding' as const),
        mode: 'permit' as const,
      })),
      // Whoever asks shows by its lease nodes.
      ...(asked.size > 0 ? behind : queue).map((node) => ({
        node,
        parent: door,
        state: 'waiting' as const,
        mode: 'permit' as const,
      })),
    ];
  }

  /**
   * The lease nodes that the session at the head of the door's queue made since it stood there. Where
   * two threads of one Curator client queue, the second is taken to ask for what the first one holds.
   */
  private async askedBy(door: string, leases: readonly QueueNode[]): Promise<Set<QueueNode>> {
    const paths = leases.map(({ name }) => `${this.door.leases}/${name}`);
    const [asker, ...stats] = await Promise.all(
      [door, ...paths].map((path) => this.client.exists(path)),
    );
    const ofAsker = leases.filter((_, index) => {
      const stat = stats[index];
      return asker && stat?.ephemeralOwner === asker.ephemeralOwner && stat.czxid > asker.czxid;
    });
    return new Set(ofAsker);
  }

  private async takePlaces(
    { count = 1, wait = Infinity, signal, details, fairness }: PermitOptions,
    each: boolean,
  ): Promise<Grant[]> {
    this.limit.checkCount(count);
    if (signal?.aborted) throw cancelled(this, signal);
    const data = holderData(details, this.limit.fixed);
    const want = { wanted: this, wait, signal, data, count, each };
    // A number that may change is looked at for each grant, and a try asks for itself.
    if (wait === 0 || fairness === 'strict' || this.limit.fixed === undefined) {
      return this.takeAlone(want);
    }
    return permitQueueOf(this.door).acquire(want);
  }

  /** By lease nodes of its own. */
  private takeAlone({ wanted, wait, signal, data, count, each }: PermitWant) {
    const endUse = this.limit.agree();
    const turn = new AbortController();
    const waiter = new Waiter<Grant[]>(wanted, wait, signal, data, () => turn.abort(NOBODY_WAITS));
    const asking = { count, data, signal: turn.signal, waiter };
    this.door
      .take(asking)
      .then((place) => {
        const grants = this.door.grants(place, each);
        if (!waiter.resolve(grants)) for (const grant of grants) grant.abandon();
        return Promise.all(grants.map(({ tenure }) => tenure.over));
      })
      .catch((error: unknown) => waiter.reject(error))
      .finally(endUse);
    return waiter.promise;
  }
}
