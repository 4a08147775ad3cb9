import { SessionExpiredError } from '../client/errors.js';
import type { Session, Watch, ZkClient } from '../client/index.js';
import { enqueue, type Listing } from './enqueue.js';
import { type Grant, grantOf } from './grant.js';
import { holderData } from './holder-details.js';
import type { AcquireOptions, Lease } from './lease.js';
import { Lock, type LockOptions } from './lock.js';
import { Mutex } from './mutex.js';
import { childrenOf, type Seat } from './participants.js';
import { PermitLimit, type Permits } from './permits.js';
import type { Place } from './queue.js';
import { inOrder, type QueueNode, queueOf } from './queue-names.js';
import { Tenure } from './tenure.js';
import { abortable, cancelled, checkAcquire, Waiter } from './wait.js';
import { readWithin, stillIn } from './within-session.js';

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

/** @publicApi */
export interface SemaphoreOptions extends LockOptions {
  /** How many there are: a number that all users of the path agree on, or one that they share. */
  permits: Permits;
}

/** @publicApi */
export interface PermitOptions extends AcquireOptions {
  /** How many to take, all or none. Default 1. */
  count?: number;
}

/** What a waiter takes to the door: its end, and what others see of it there. */
type Asking = Pick<AcquireOptions, 'details'> & { signal: AbortSignal };

const MARKER = 'lease-';
const LEASES = [MARKER];
/** Milliseconds between two looks of a mere try at whether permits are left. */
const TRY_AGAIN = 20;

/**
 * A number of permits on the znode `path`, shared with every Curator `InterProcessSemaphoreV2` there.
 * Permits belong to leases, not to a call chain: asking again inside takes more of them.
 *
 * @publicApi
 */
export class Semaphore extends Lock<PermitOptions> {
  override readonly noun: Lock['noun'] = 'semaphore';
  private readonly limit: PermitLimit;
  private readonly leases: string;

  constructor(client: ZkClient, path: string, { permits, ...options }: SemaphoreOptions) {
    super(client, path, options);
    this.limit = new PermitLimit(client, path, permits);
    this.leases = `${path}/leases`;
  }

  /** As {@link acquire}, with a lease for each permit, to give them back one by one. */
  async acquireEach(options: PermitOptions = {}): Promise<Lease[]> {
    checkAcquire(options);
    await this.client.session({ signal: options.signal });
    const grants = await this.takePlaces(options, ({ nodes, ...place }) =>
      nodes.map((node) => ({ ...place, nodes: [node] })),
    );
    return grants.map((grant) => {
      grant.limit(options);
      return grant.lease(this.key);
    });
  }

  /** How many permits nobody holds at present. */
  async available(): Promise<number> {
    const value = await this.limit.read();
    return Math.max(0, value - (await this.taken()));
  }

  protected override heldByChain(): Grant | undefined {
    return undefined;
  }

  protected override async take(options: PermitOptions): Promise<Grant> {
    const [grant] = await this.takePlaces(options, (place) => [place]);
    return grant!;
  }

  /**
   * Lease nodes in their order, then those who wait to ask. All lease nodes hold, whatever the number of
   * permits is by now, but for those of the one who asks where there are more of them than permits.
   */
  protected override async seats(): Promise<Seat[]> {
    const door = `${this.path}/locks`;
    // In this order: whoever left the door between the two lists holds, or its lease nodes are gone.
    const [leases, doors, value] = await Promise.all([
      childrenOf(this.client, this.leases),
      childrenOf(this.client, door),
      this.limit.read(),
      this.checkNeighbours(),
    ]);
    const nodes = inOrder(queueOf({ parent: this.leases, markers: LEASES }, leases));
    const queue = inOrder(queueOf({ parent: door, markers: ['lock-'] }, doors));
    const [first, ...behind] = queue;
    const asked = first ? await this.askedBy(`${door}/${first.name}`, nodes) : new Set();
    return [
      ...nodes.map((node) => ({
        node,
        parent: this.leases,
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
    const paths = leases.map(({ name }) => `${this.leases}/${name}`);
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
    { count = 1, wait = Infinity, signal, details }: PermitOptions,
    parts: (place: Place) => Place[],
  ): Promise<Grant[]> {
    this.limit.checkCount(count);
    if (signal?.aborted) throw cancelled(this, signal);
    const data = holderData(details, this.limit.fixed);
    const endUse = this.limit.agree();
    const turn = new AbortController();
    const waiter = new Waiter<Grant[]>(this, wait, signal, data, () => turn.abort());
    this.serve(waiter, count, { signal: turn.signal, details })
      .then((place) => {
        const grants = parts(place).map((part) =>
          new Tenure(this.client, 'semaphore', this.path, part).grant(),
        );
        if (!waiter.resolve(grants)) for (const grant of grants) grant.abandon();
        return Promise.all(grants.map(({ tenure }) => tenure.over));
      })
      .catch((error: unknown) => waiter.reject(error))
      .finally(endUse);
    return waiter.promise;
  }

  private async serve(waiter: Waiter<Grant[]>, count: number, asking: Asking): Promise<Place> {
    const { signal } = asking;
    await this.checkNeighbours();
    for (;;) {
      const door = await this.passDoor(waiter, count, asking);
      try {
        const place = await this.ask(grantOf(door)!, waiter, count, signal);
        if (place) return place;
      } catch (error) {
        if (signal.aborted || !(error instanceof SessionExpiredError)) throw error;
      } finally {
        void door.release();
      }
    }
  }

  /** The right to ask. Even a try waits for it while permits are left: whoever has it will be through soon. */
  private async passDoor(waiter: Waiter<Grant[]>, count: number, asking: Asking): Promise<Lease> {
    const mutex = new Mutex(this.client, `${this.path}/locks`, { key: this.key });
    if (waiter.patient) return mutex.acquire(asking);
    for (;;) {
      if ((await this.available()) < count) waiter.blocked();
      asking.signal.throwIfAborted();
      const door = await mutex.tryAcquire({ ...asking, wait: TRY_AGAIN });
      if (door) return door;
    }
  }

  /** Undefined where what had been made is gone: ask again. */
  private async ask(
    door: Grant,
    waiter: Waiter<Grant[]>,
    count: number,
    signal: AbortSignal,
  ): Promise<Place | undefined> {
    const { session } = door.tenure.place;
    const created = await this.createLeases(session, waiter.data, count);
    const names = created.map(({ name }) => name);
    const nodes = names.map((name) => `${this.leases}/${name}`);
    const attempt = AbortSignal.any([signal, door.signal]);
    let granted: Listing | undefined;
    try {
      await this.checkAgreement(created.at(-1)?.listing, names);
      [granted] = await Promise.all([
        this.withinLimit(session, names, waiter, attempt),
        // Again, now that our own are there: of two recipes that start at once, the later one sees the other.
        this.checkNeighbours(),
      ]);
      // The session may have ended between the two answers.
      if (!session.trusted) granted = undefined;
    } catch (error) {
      if (signal.aborted || !door.lost) throw error;
      // Without the door somebody else may ask: start again behind it.
    } finally {
      if (!granted) for (const node of nodes) void session.discard(node);
    }
    return granted && { session, nodes, pzxid: granted.stat.pzxid, others: [] };
  }

  private async createLeases(session: Session, data: Uint8Array, count: number) {
    const node = {
      parent: this.leases,
      suffix: MARKER,
      data,
      mode: 'ephemeral-sequential',
    } as const;
    const results = await Promise.allSettled(
      Array.from({ length: count }, () => enqueue(this.client, session, node)),
    );
    const made = results.filter((result) => result.status === 'fulfilled');
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) {
      for (const { value } of made) void session.discard(`${this.leases}/${value.name}`);
      throw failed.reason;
    }
    return made.map(({ value }) => value);
  }

  /** Resolves when all of `names` are within the limit; undefined where one of them is gone. */
  private async withinLimit(
    session: Session,
    names: readonly string[],
    waiter: Waiter<Grant[]>,
    signal: AbortSignal,
  ): Promise<Listing | undefined> {
    for (;;) {
      signal.throwIfAborted();
      // The children are watched, since any lease's end may let us in: a watch on one of them would
      // miss the others.
      const list = () => session.children(this.leases, { watch: true });
      const listing = await readWithin(this.client, session, list, signal);
      let limit: { value: number; watch: Watch | undefined } | undefined;
      try {
        limit = await this.limit.watched();
        if (!names.every((name) => listing.children.includes(name))) return undefined;
        if (
          queueOf({ parent: this.leases, markers: LEASES }, listing.children).length <= limit.value
        ) {
          if (session.trusted) return listing;
          await stillIn(this.client, session, signal);
          continue;
        }
        waiter.blocked();
        const changes = [listing.watch.fired, ...(limit.watch ? [limit.watch.fired] : [])];
        await abortable(Promise.race(changes), signal);
      } finally {
        listing.watch.remove();
        limit?.watch?.remove();
      }
    }
  }

  private async taken(): Promise<number> {
    const children = await childrenOf(this.client, this.leases);
    return queueOf({ parent: this.leases, markers: LEASES }, children).length;
  }

  /** Other locks on the same path would not see this one. */
  private async checkNeighbours(): Promise<void> {
    const children = await childrenOf(this.client, this.path);
    const others = children.filter((name) => name !== 'locks' && name !== 'leases');
    queueOf({ parent: this.path, markers: [] }, others);
  }

  private async checkAgreement(
    listing: Listing | undefined,
    own: readonly string[],
  ): Promise<void> {
    const other = listing?.children.find((name) => !own.includes(name));
    if (other) await this.limit.checkAgainst(`${this.leases}/${other}`);
  }
}
