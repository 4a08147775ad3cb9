import type { ZkClient } from '../client/index.js';
import { runDetached } from './chain.js';
import { Grant, type Recipe } from './grant.js';
import { takeTurn } from './queue.js';
import type { QueueSpec } from './queue-names.js';
import { busy, cancelled, Waiter, type Wanted } from './wait.js';

/*
 * All that one process wants of one exclusive lock. Its callers wait here, first in first out; a
 * single znode stands for them in the ensemble's queue, and each grant takes a new one at the end of
 * that queue, so that the other processes have their turn in between.
 */

export interface OwnerSpec extends Omit<QueueSpec, 'data'> {
  readonly recipe: Recipe;
}

const owners = new WeakMap<ZkClient, Map<string, Owner>>();

/** The one owner of this lock in this process. It is there as long as anybody holds or waits. */
export function ownerOf(client: ZkClient, spec: OwnerSpec): Owner {
  let siblings = owners.get(client);
  if (!siblings) owners.set(client, (siblings = new Map()));
  return siblings.get(idOf(spec)) ?? new Owner(client, spec, siblings);
}

class Owner {
  private readonly waiters = new Set<Waiter<Grant>>();
  private grant: Grant | undefined;
  private serving = false;
  /** Aborted when the last waiter leaves: then nobody wants the turn that is being waited for. */
  private turn = new AbortController();

  constructor(
    private readonly client: ZkClient,
    private readonly spec: OwnerSpec,
    private readonly siblings: Map<string, Owner>,
  ) {}

  /** @param data what the waiter's node is to say about it */
  async acquire(
    wanted: Wanted,
    wait: number,
    signal: AbortSignal | undefined,
    data: Uint8Array,
  ): Promise<Grant> {
    if (signal?.aborted) throw cancelled(wanted, signal);
    if (wait === 0 && (this.grant?.occupied || this.waiters.size > 0)) throw busy(wanted);
    const waiter = new Waiter<Grant>(wanted, wait, signal, data, (ended) => this.leave(ended));
    this.waiters.add(waiter);
    if (!this.serving) {
      this.serving = true;
      this.siblings.set(idOf(this.spec), this);
      // The loop outlives this caller and must not count as a holder of what the caller holds.
      runDetached(() => void this.serve());
    }
    return waiter.promise;
  }

  /** One grant after another, as long as anybody waits. */
  private async serve(): Promise<void> {
    for (let first = this.first; first; first = this.first) {
      const turn = (this.turn = new AbortController());
      try {
        const { data } = first;
        const place = await takeTurn(
          this.client,
          { ...this.spec, data },
          {
            signal: turn.signal,
            onBlocked: () => {
              for (const waiter of this.waiters) waiter.blocked();
            },
          },
        );
        this.grant = new Grant(this.client, this.spec.recipe, this.spec.parent, place);
        this.give(this.grant, data);
        await this.grant.over;
      } catch (error) {
        if (!turn.signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      }
    }
    this.serving = false;
    this.siblings.delete(idOf(this.spec));
  }

  private give(grant: Grant, data: Uint8Array): void {
    const { first } = this;
    if (!first) return grant.abandon();
    if (!Buffer.from(first.data).equals(data)) {
      // The node was made for a waiter that left. Version 0: a request for revocation stays.
      const [node] = grant.place.nodes;
      grant.place.session.set(node!, first.data, 0).catch(() => undefined);
    }
    first.resolve(grant);
  }

  private get first(): Waiter<Grant> | undefined {
    const [first] = this.waiters;
    return first;
  }

  private leave(waiter: Waiter<Grant>): void {
    this.waiters.delete(waiter);
    if (this.waiters.size === 0) this.turn.abort();
  }
}

function idOf({ recipe, parent }: OwnerSpec): string {
  return `${recipe}:${parent}`;
}
