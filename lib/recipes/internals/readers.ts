import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ZkClient } from '../../client/index.js';
import type { GrantKind } from '../diagnostics/index.js';
import { Bound } from './bound.js';
import { runDetached } from './call-chain.js';
import { Company } from './company.js';
import { type Line, lookAfter } from './deadlock/detector.js';
import type { WaitingNode } from './deadlock/waiting-node.js';
import type { Grant } from './grant.js';
import { OwnerWaiter, type Want } from './owner.js';
import { PerClient } from './owner.js';
import { type Place, takeTurn } from './queue.js';
import { type QueueNode, queueOf, type QueueSpec } from './node-names.js';
import { Roster } from './fifo-set.js';
import { giveBackController, takeController } from './fifo-set.js';
import { Stay } from './stay.js';
import { Tenure } from './tenure.js';
import { Tries } from './tries.js';
import { cancelled, NOBODY_WAITS, type Waiter } from './wait.js';

/*
 * All that one process wants of one lock that readers share. They share a single znode too, as long as no
 * writer stands behind it: from then on no reader joins, or writers would starve, and the next ones queue
 * up behind that writer with another znode.
 */

interface ReadersSpec extends Omit<QueueSpec, 'data'> {
  isWriter(node: QueueNode): boolean;
}

const readers = new PerClient<Readers>();

/** The readers of this lock in this process. They are there as long as any of them holds or waits. */
export function readersOf(client: ZkClient, spec: ReadersSpec): Readers {
  const siblings = readers.of(client);
  return siblings.get(spec.parent) ?? new Readers(client, spec, siblings);
}

class Readers implements Line {
  waiting: WaitingNode | undefined;
  /** Who cannot join waits in the queue. */
  readonly behind = undefined;
  readonly waiters = new Roster<OwnerWaiter>();
  private shared: SharedPlace | undefined;
  private serving = false;
  private readonly tries = new Tries();
  private turn: AbortController | undefined;

  constructor(
    readonly client: ZkClient,
    private readonly spec: ReadersSpec,
    private readonly siblings: Map<string, Readers>,
  ) {}

  acquire(want: Want): Promise<Grant> | Grant {
    const { wanted, signal } = want;
    if (signal?.aborted) return Promise.reject(cancelled(wanted, signal));
    const grant = this.shared?.join(want.linger);
    if (grant) return grant;
    const waiter = new OwnerWaiter(want, this.leave);
    if (this.shared) this.shared.joinLater(waiter);
    else this.queue(waiter);
    return waiter.promise;
  }

  private queue(waiter: OwnerWaiter): void {
    this.waiters.add(waiter);
    this.tries.add(waiter);
    lookAfter(waiter, this, waiter.want.onDeadlock, waiter.from);
    if (!this.serving) this.start();
  }

  private start(): void {
    this.serving = true;
    this.siblings.set(this.spec.parent, this);
    // The loop outlives this caller and must not count as a holder of what the caller holds.
    runDetached(() => void this.serve());
  }

  /** One place after another, each for all who wait by then. */
  private async serve(): Promise<void> {
    for (let first; (first = this.waiters.first);) {
      const turn = (this.turn = takeController());
      try {
        const mayLinger = first.linger > 0;
        const place = await takeTurn(
          this.client,
          { ...this.spec, data: first.data },
          {
            signal: turn.signal,
            onBlocked: (node) => (this.waiting = node),
            tries: this.tries,
          },
        );
        this.turn = undefined;
        giveBackController(turn);
        this.share(
          new SharedPlace(this.client, this.spec, place, mayLinger, (waiter) => this.queue(waiter)),
        );
      } catch (error) {
        if (!turn.signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      }
    }
    this.serving = false;
    this.forget();
  }

  private share(place: SharedPlace): void {
    this.shared = place;
    void place.over.then(() => {
      if (this.shared === place) this.shared = undefined;
      this.forget();
    });
    for (const waiter of this.waiters) waiter.resolve(place.admit(waiter.want.linger));
    // Nobody is left of those who waited.
    place.close();
  }

  private readonly leave = (waiter: Waiter<Grant>): void => {
    this.waiters.delete(waiter as OwnerWaiter);
    this.tries.delete(waiter);
    if (this.waiters.size === 0) this.turn?.abort(NOBODY_WAITS);
  };

  private forget(): void {
    const { parent } = this.spec;
    // Those who hold by an earlier znode may outlive the entry, and find that of others there.
    const known = this.siblings.get(parent) === this;
    if (known && !this.serving && !this.shared) this.siblings.delete(parent);
  }
}

/** One znode, and the readers who hold the lock by it. */
class SharedPlace {
  private readonly tenure: Tenure;
  private readonly company: Company;
  private readonly stay: Stay;
  private readonly bound = new Bound();
  private linger = 0;
  /** Who wants to join as soon as it may be. */
  private readonly coming = new Roster<OwnerWaiter>();
  private admitting = false;
  /** Lets go on who waits for the place to be given back: it is not. */
  private keep: (() => void) | undefined;
  /** Of the next grant, unless the node lingers. */
  private kind: GrantKind = 'cold';

  constructor(
    client: ZkClient,
    spec: ReadersSpec,
    place: Place,
    /** The znode has the mark by which the tries of other processes know that it may linger. */
    private readonly mayLinger: boolean,
    private readonly onRefused: (waiter: OwnerWaiter) => void,
  ) {
    const { parent } = spec;
    this.tenure = new Tenure(client, 'read', parent, place, () => this.onFree());
    this.company = new Company(client, place.session, parent, {
      others: place.others.some((node) => spec.isWriter(node)),
      isOther: (children) => queueOf(spec, children).some((node) => spec.isWriter(node)),
      onArrival: () => this.stay.yieldToOthers(),
    });
    this.stay = new Stay(this.tenure, this.company);
  }

  get over(): Promise<void> {
    return this.tenure.over;
  }

  /** Lets the waiter join as soon as it is known that nobody minds, or sends it to the queue. */
  joinLater(waiter: OwnerWaiter): void {
    this.coming.add(waiter);
    if (!this.admitting) void this.admitComing();
  }

  /** All of them before any of them goes on: the place is free only when they all have left again. */
  private async admitComing(): Promise<void> {
    const { coming } = this;
    this.admitting = true;
    for (let first = this.first(); first && coming.size > 0; first = this.first()) {
      await first;
      for (const waiter of coming) {
        const grant = waiter.over ? undefined : this.join(waiter.linger);
        if (!grant && !waiter.over) break;
        coming.delete(waiter);
        if (grant) waiter.take(grant);
      }
    }
    this.admitting = false;
    const refused = [...coming].filter(({ over }) => !over);
    coming.clear();
    this.leaveIfFree();
    for (const waiter of refused) this.onRefused(waiter);
  }

  /** What has to come before anybody may join; undefined where nobody may any more. */
  private first(): Promise<void> | undefined {
    const { tenure, company, bound } = this;
    if (!tenure.grantsOn || company.others) return undefined;
    if (!company.alone) return company.look();
    bound.startAgain();
    // Readers follow each other in one turn of the event loop: it has to hear of writers, and of time.
    return nextTurn();
  }

  /** Undefined where a writer waits or may do so, and where it is time for others in this process. */
  join(linger: number): Grant | undefined {
    const { tenure, company, bound } = this;
    if (!tenure.grantsOn || !company.alone || bound.before !== 'nothing') return undefined;
    bound.count();
    return this.admit(linger);
  }

  admit(linger: number): Grant {
    const kind = this.stay.active ? 'lingering' : this.kind;
    this.kind = 'shared';
    this.stay.end();
    this.linger = linger;
    this.keep?.();
    return this.tenure.share(kind);
  }

  /** After this turn: readers that came in one go leave in one go, and come again. */
  private onFree(): Promise<void> {
    return new Promise((resolve) => {
      this.keep = resolve;
      setImmediate(() => {
        this.leaveIfFree();
        resolve(this.tenure.givenBack);
      });
    });
  }

  private leaveIfFree(): void {
    const { tenure, stay, coming } = this;
    if (coming.size > 0 || tenure.occupied || tenure.givenBack) return;
    if (stay.active && tenure.staysOn) return;
    stay.begin(tenure.grantsOn && this.mayLinger ? this.linger : 0);
  }

  /** Whoever it was made for has left. */
  close(): void {
    if (!this.tenure.occupied) void this.tenure.giveBack();
  }
}
