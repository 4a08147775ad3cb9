import { SessionExpiredError } from '../../client/errors.js';
import type { Session, Watch, ZkClient } from '../../client/index.js';
import { wait as pause } from '../../client/sleep.js';
import { enqueue, type Listing, type NewNode } from './enqueue.js';
import { type Grant, grantOf } from './grant.js';
import type { Lease } from '../lease.js';
import type { Lock } from '../lock.js';
import { childrenOf } from '../participants.js';
import type { PermitLimit } from './permits.js';
import { type Place, takeTurn } from './queue.js';
import { lastBefore, queueOf } from './node-names.js';
import { Tenure } from './tenure.js';
import { abortable, NOBODY_WAITS, type Waiter } from './wait.js';
import { readWithin, stillIn } from './session-retry.js';

const LEASE = 'lease-';
export const LEASES = [LEASE];
const DOOR = 'lock-';
export const DOORS = [DOOR];
/** Milliseconds between two looks of a mere try at whether permits are left. */
const LOOK_AGAIN = 20;

/** What is asked for at the door, and for whom. */
export interface Asking {
  readonly count: number;
  readonly data: Uint8Array;
  readonly signal: AbortSignal;
  /** A single caller, who may want a mere try. */
  readonly waiter?: Waiter<Grant[]>;
  /** As in {@link NewNode}, for each node at the door. */
  readonly onNamed?: NewNode['onNamed'];
}

/** Where permits are asked for: one at a time over all processes, in the order of arrival. */
export class PermitDoor {
  readonly client: ZkClient;
  readonly path: string;
  /** The queue at the door. */
  readonly queue: string;
  readonly leases: string;

  constructor(
    readonly semaphore: Lock,
    readonly limit: PermitLimit,
  ) {
    const { client, path } = semaphore;
    this.client = client;
    this.path = path;
    this.queue = `${path}/locks`;
    this.leases = `${path}/leases`;
  }

  /** The lease nodes of `count` permits. */
  async take(asking: Asking): Promise<Place> {
    const { signal } = asking;
    await this.checkNeighbours();
    for (;;) {
      const door = await this.pass(asking);
      try {
        const place = await this.ask(grantOf(door)!, asking);
        if (place) return place;
      } catch (error) {
        if (signal.aborted || !(error instanceof SessionExpiredError)) throw error;
      } finally {
        void door.release();
      }
    }
  }

  /** One grant for all of a place's permits, or one for each. */
  grants(place: Place, each: boolean): Grant[] {
    const parts = each ? place.nodes.map((node) => ({ ...place, nodes: [node] })) : [place];
    return parts.map((part) => new Tenure(this.client, 'semaphore', this.path, part).grant());
  }

  /** Whether nodes stand at the door whose names begin with none of these. */
  hasOthers(children: readonly string[], own: ReadonlySet<string>): boolean {
    return queueOf({ parent: this.queue, markers: DOORS }, children).some(
      ({ name }) => ![...own].some((prefix) => name.startsWith(prefix)),
    );
  }

  /** The right to ask. */
  private async pass(asking: Asking): Promise<Lease> {
    const { client, queue: parent } = this;
    const { data, onNamed, waiter } = asking;
    const names = { parent, marker: DOOR, markers: DOORS, data, nodeAhead: lastBefore };
    const turn = (signal: AbortSignal) =>
      takeTurn(client, names, { signal, onBlocked: () => waiter?.blockedBriefly(), onNamed });
    const trying = waiter && !waiter.patient;
    const place = await (trying ? this.whileLeft(turn, waiter, asking) : turn(asking.signal));
    waiter?.unblocked();
    return new Tenure(client, 'mutex', parent, place).grant().lease(this.semaphore.key);
  }

  /** Even a try waits at the door for a short time while permits are left: the request ahead ends soon. */
  private async whileLeft(
    turn: (signal: AbortSignal) => Promise<Place>,
    waiter: Waiter<Grant[]>,
    { count, signal }: Asking,
  ): Promise<Place> {
    const looking = new AbortController();
    const either = AbortSignal.any([signal, looking.signal]);
    const enough = async () => (await this.limit.read()) - (await this.taken()) >= count;
    const look = async () => {
      if (await enough()) return either.throwIfAborted();
      // The server may lag behind the one that answered a release.
      const [, stillEnough] = await Promise.all([this.client.sync(this.path), enough()]);
      // At the door by now: what is taken may be what it took itself.
      either.throwIfAborted();
      if (!stillEnough) waiter.blocked();
      either.throwIfAborted();
    };
    const lookAgain = async () => {
      for (;;) {
        await pause(LOOK_AGAIN, { signals: [either] });
        await look();
      }
    };
    await look();
    lookAgain().catch((error: unknown) => looking.abort(error));
    try {
      return await turn(either);
    } finally {
      looking.abort(NOBODY_WAITS);
    }
  }

  /** Undefined where what had been made is gone: ask again. */
  private async ask(
    door: Grant,
    { count, data, signal, waiter }: Asking,
  ): Promise<Place | undefined> {
    const { session } = door.tenure.place;
    const created = await this.createLeases(session, data, count);
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
      suffix: LEASE,
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
    waiter: Waiter<Grant[]> | undefined,
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
        waiter?.blocked();
        const changes = [listing.watch.fired, ...(limit.watch ? [limit.watch.fired] : [])];
        await abortable(Promise.race(changes), signal);
      } finally {
        listing.watch.remove();
        limit?.watch?.remove();
      }
    }
  }

  async taken(): Promise<number> {
    const children = await childrenOf(this.client, this.leases);
    return queueOf({ parent: this.leases, markers: LEASES }, children).length;
  }

  /** Other locks on the same path would not see this one. */
  async checkNeighbours(): Promise<void> {
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
