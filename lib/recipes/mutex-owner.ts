import type { ZkClient } from '../client/index.js';
import { runDetached } from './chain.js';
import { fencingToken } from './fencing-token.js';
import { Grant } from './grant.js';
import { takeTurn } from './queue.js';
import type { QueueSpec } from './queue-names.js';
import { busy, cancelled, Waiter } from './wait.js';

/*
 * All that one process wants of one mutex. Its callers wait here, first in first out; a single znode
 * stands for them in the ensemble's queue, and each grant takes a new one at the end of that queue,
 * so that the other processes have their turn in between.
 */

const owners = new WeakMap<ZkClient, Map<string, MutexOwner>>();

/** The one owner of this queue in this process. It is there as long as anybody holds or waits. */
export function ownerOf(client: ZkClient, spec: QueueSpec): MutexOwner {
  let siblings = owners.get(client);
  if (!siblings) owners.set(client, (siblings = new Map()));
  return siblings.get(spec.parent) ?? new MutexOwner(client, spec, siblings);
}

class MutexOwner {
  private readonly waiters = new Set<Waiter<Grant>>();
  private grant: Grant | undefined;
  private serving = false;
  /** Aborted when the last waiter leaves: then nobody wants the turn that is being waited for. */
  private turn = new AbortController();

  constructor(
    private readonly client: ZkClient,
    private readonly spec: QueueSpec,
    private readonly siblings: Map<string, MutexOwner>,
  ) {}

  async acquire(key: string, wait: number, signal: AbortSignal | undefined): Promise<Grant> {
    if (signal?.aborted) throw cancelled(key, signal);
    if (wait === 0 && (this.grant?.held || this.waiters.size > 0)) throw busy(key);
    const waiter = new Waiter<Grant>(key, wait, signal, (ended) => this.leave(ended));
    this.waiters.add(waiter);
    if (!this.serving) {
      this.serving = true;
      this.siblings.set(this.spec.parent, this);
      // The loop outlives this caller and must not count as a holder of what the caller holds.
      runDetached(() => void this.serve());
    }
    return waiter.promise;
  }

  /** One grant after another, as long as anybody waits. */
  private async serve(): Promise<void> {
    while (this.waiters.size > 0) {
      const turn = (this.turn = new AbortController());
      try {
        const place = await takeTurn(this.client, this.spec, {
          signal: turn.signal,
          onBlocked: () => this.each((waiter) => waiter.blocked()),
        });
        this.grant = new Grant(this.client, this.spec.parent, place, fencingToken(place.pzxid));
        const [first] = this.waiters;
        if (first) first.resolve(this.grant);
        else this.grant.abandon();
        await this.grant.over;
      } catch (error) {
        if (!turn.signal.aborted) this.each((waiter) => waiter.reject(error));
      }
    }
    this.serving = false;
    this.siblings.delete(this.spec.parent);
  }

  private each(action: (waiter: Waiter<Grant>) => void): void {
    for (const waiter of this.waiters) action(waiter);
  }

  private leave(waiter: Waiter<Grant>): void {
    this.waiters.delete(waiter);
    if (this.waiters.size === 0) this.turn.abort();
  }
}
