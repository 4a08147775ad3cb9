import { runDetached } from './call-chain.js';
import type { Grant } from './grant.js';
import { type HandOverSpec, type Next, Turns } from './hand-over.js';
import { PerClient } from './owner.js';
import type { PermitDoor } from './permit-door.js';
import type { Place } from './queue.js';
import { Roster } from './fifo-set.js';
import { NOBODY_WAITS, Waiter, type Wanted } from './wait.js';

/*
 * All that one process wants of one semaphore. Its callers wait here, first in first out; one of them at
 * a time asks at the door, for whoever is first when it is let in. Permits that come back are handed to
 * the next without the network, until others have waited at the door for long enough. No permit is kept
 * while more are asked for: two processes that do so would wait for each other.
 */

export interface PermitWant {
  readonly wanted: Wanted;
  readonly wait: number;
  readonly signal: AbortSignal | undefined;
  readonly data: Uint8Array;
  readonly count: number;
  /** A grant for each permit. */
  readonly each: boolean;
}

const queues = new PerClient<PermitQueue>();

/** The one queue for these permits in this process. It is there as long as anybody holds or waits. */
export function permitQueueOf(door: PermitDoor): PermitQueue {
  const siblings = queues.of(door.client);
  return siblings.get(idOf(door)) ?? new PermitQueue(door, siblings);
}

class PermitWaiter extends Waiter<Grant[]> implements Next {
  /** Whoever keeps a permit for nobody keeps it from those who wait for more. */
  readonly linger = 0;

  constructor(
    readonly want: PermitWant,
    onEnd: (waiter: Waiter<Grant[]>) => void,
  ) {
    const { wanted, wait, signal, data } = want;
    super(wanted, wait, signal, data, onEnd);
  }

  take(grant: Grant): void {
    this.resolve([grant]);
  }
}

class PermitQueue {
  private readonly waiters = new Roster<PermitWaiter>();
  /** Handed over among the callers here. */
  private readonly held = new Set<Turns>();
  /** What the names of our nodes at the door begin with. */
  private readonly asking = new Set<string>();
  private serving = false;
  private turn: AbortController | undefined;
  private askedFor = 0;
  private endUse: (() => void) | undefined;

  constructor(
    private readonly door: PermitDoor,
    private readonly siblings: Map<string, PermitQueue>,
  ) {}

  acquire(want: PermitWant): Promise<Grant[]> {
    if (!this.endUse) {
      // The same number for all, as long as any of them holds or waits.
      this.endUse = this.door.limit.agree();
      this.siblings.set(idOf(this.door), this);
    }
    const waiter = new PermitWaiter(want, this.leave);
    this.waiters.add(waiter);
    if (!this.serving) {
      this.serving = true;
      // The loop outlives this caller and must not count as a holder of what the caller holds.
      runDetached(() => void this.serve());
    }
    return waiter.promise;
  }

  /** One after another asks, as long as anybody waits. */
  private async serve(): Promise<void> {
    for (let first; (first = this.waiters.first);) {
      const turn = (this.turn = new AbortController());
      try {
        const { count, data } = first.want;
        this.askedFor = count;
        const place = await this.door.take({
          count,
          data,
          signal: turn.signal,
          onNamed: (prefix) => this.asking.add(prefix),
        });
        this.turn = undefined;
        this.share(place, data);
      } catch (error) {
        if (!turn.signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      }
      this.asking.clear();
    }
    this.serving = false;
    this.endIfIdle();
  }

  /** To those who are first by now; what none of them can use goes back. */
  private share({ nodes, ...place }: Place, data: Uint8Array): void {
    let rest = nodes;
    for (let first; (first = this.waiters.first) && first.want.count <= rest.length;) {
      const { count, each } = first.want;
      const mine = { ...place, nodes: rest.slice(0, count) };
      rest = rest.slice(count);
      if (each && count > 1) first.resolve(this.door.grants(mine, true));
      else this.hold(new Turns(this.door.client, this.handOver(count), mine, { data, linger: 0 }));
      if (rest.length === 0) return;
    }
    for (const node of rest) void place.session.discard(node);
  }

  private hold(turns: Turns): void {
    this.held.add(turns);
    void turns.over.then(() => {
      this.held.delete(turns);
      this.endIfIdle();
    });
  }

  private handOver(count: number): HandOverSpec {
    return {
      recipe: 'semaphore',
      path: this.door.path,
      queue: this.door.queue,
      isOther: (children) => this.door.hasOthers(children, this.asking),
      next: () => {
        // A small request never overtakes a large one, which would starve.
        const { first } = this.waiters;
        const fits = first?.want.count === count && (count === 1 || !first.want.each);
        return fits ? first : undefined;
      },
    };
  }

  private readonly leave = (waiter: Waiter<Grant[]>): void => {
    this.waiters.delete(waiter as PermitWaiter);
    // Whoever is first by now may want another number of permits, or nobody wants any.
    if (this.waiters.first?.want.count !== this.askedFor) this.turn?.abort(NOBODY_WAITS);
  };

  private endIfIdle(): void {
    if (this.serving || this.held.size > 0 || this.waiters.size > 0) return;
    this.siblings.delete(idOf(this.door));
    this.endUse?.();
    this.endUse = undefined;
  }
}

function idOf({ path, limit }: PermitDoor): string {
  return `${limit.fixed}:${path}`;
}
