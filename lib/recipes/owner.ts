import type { ZkClient } from '../client/index.js';
import { runDetached } from './chain.js';
import { type Line, lookAfter } from './deadlock/detector.js';
import type { WaitingNode } from './deadlock/waiting-node.js';
import type { Grant, Recipe } from './grant.js';
import { type HandOverSpec, type Next, Turns } from './hand-over.js';
import { holderData } from './holder-details.js';
import type { AcquireOptions } from './lease.js';
import { PerClient } from './per-client.js';
import { takeTurn } from './queue.js';
import { queueOf, type QueueSpec } from './queue-names.js';
import { busy, cancelled, NOBODY_WAITS, Waiter, type Wanted } from './wait.js';

/*
 * All that one process wants of one exclusive lock (lock cohorting: Dice, Marathe and Shavit). Its
 * callers wait here, first in first out, behind a single znode. Whoever releases the lock hands it to the
 * next of them without the network, until others have waited long enough for their turn: then the znode
 * goes, and another one queues up at the end.
 */

export interface OwnerSpec extends Omit<QueueSpec, 'data'> {
  readonly recipe: Recipe;
}

export interface Want {
  readonly wanted: Wanted;
  readonly wait: number;
  readonly signal: AbortSignal | undefined;
  /** What the waiter's node is to say about it. */
  readonly data: Uint8Array;
  readonly linger: number;
  readonly onDeadlock: AcquireOptions['onDeadlock'];
}

export function wantOf(
  wanted: Wanted,
  { wait = Infinity, signal, details, linger = 0, onDeadlock }: AcquireOptions,
): Want {
  return { wanted, wait, signal, data: holderData(details), linger, onDeadlock };
}

const owners = new PerClient<Owner>();

/** The one owner of this lock in this process. It is there as long as it has or wants the lock. */
export function ownerOf(client: ZkClient, spec: OwnerSpec): Owner {
  const siblings = owners.of(client);
  return siblings.get(idOf(spec)) ?? new Owner(client, spec, siblings);
}

export class OwnerWaiter extends Waiter<Grant> implements Next {
  constructor(
    readonly want: Want,
    onEnd: (waiter: OwnerWaiter) => void,
  ) {
    super(want.wanted, want.wait, want.signal, want.data, (waiter) => onEnd(waiter as OwnerWaiter));
  }

  get linger(): number {
    return this.want.linger;
  }

  take(grant: Grant): void {
    this.resolve(grant);
  }
}

class Owner implements Line {
  waiting: WaitingNode | undefined;
  readonly waiters = new Set<OwnerWaiter>();
  private turns: Turns | undefined;
  private serving = false;
  /** Aborted when the last waiter leaves: then nobody wants the turn that is being waited for. */
  private turn: AbortController | undefined;

  constructor(
    readonly client: ZkClient,
    private readonly spec: OwnerSpec,
    private readonly siblings: Map<string, Owner>,
  ) {}

  get behind(): string | undefined {
    return this.turns?.node;
  }

  acquire(want: Want): Promise<Grant> {
    const { wanted, wait, signal } = want;
    if (signal?.aborted) return Promise.reject(cancelled(wanted, signal));
    const { turns } = this;
    if (wait === 0 && (this.waiters.size > 0 || (turns && !turns.idle)))
      return Promise.reject(busy(wanted));
    const waiter = new OwnerWaiter(want, (ended) => this.leave(ended));
    this.waiters.add(waiter);
    lookAfter(waiter, this, want.onDeadlock);
    if (turns) turns.goOn();
    else if (!this.serving) this.start();
    return waiter.promise;
  }

  private start(): void {
    this.serving = true;
    this.siblings.set(idOf(this.spec), this);
    // The loop outlives this caller and must not count as a holder of what the caller holds.
    runDetached(() => void this.serve());
  }

  /** One tenure after another, as long as anybody waits. */
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
            onBlocked: (node) => {
              this.waiting = node;
              for (const waiter of this.waiters) waiter.blocked();
            },
          },
        );
        this.turns = new Turns(this.client, this.handOver, place, data);
        await this.turns.over;
      } catch (error) {
        if (!turn.signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      }
      this.turns = undefined;
    }
    this.serving = false;
    this.siblings.delete(idOf(this.spec));
  }

  private get handOver(): HandOverSpec {
    const { spec } = this;
    return {
      recipe: spec.recipe,
      path: spec.parent,
      queue: spec.parent,
      isOther: (children) => queueOf(spec, children).length > 1,
      next: () => this.first,
    };
  }

  private get first(): OwnerWaiter | undefined {
    const [first] = this.waiters;
    return first;
  }

  private leave(waiter: OwnerWaiter): void {
    this.waiters.delete(waiter);
    if (this.waiters.size === 0) this.turn?.abort(NOBODY_WAITS);
  }
}

function idOf({ recipe, parent }: OwnerSpec): string {
  return `${recipe}:${parent}`;
}
