import type { ZkClient } from '../client/index.js';
import { LeaseLostError } from './errors.js';
import type { Lease } from './lease.js';
import { NodeGuard } from './node-guard.js';
import type { Place } from './queue.js';

/**
 * The right that one place at the head of a queue gives: `held` until every lease on it was
 * released, or until its session can no longer be trusted.
 */
export class Grant {
  /** Resolves when the right is over, and its node's deletion was sent where there is anything to delete. */
  readonly over: Promise<void>;
  readonly path: string;
  private state: 'held' | 'released' | 'lost' = 'held';
  private leases = 0;
  private reason: LeaseLostError | undefined;
  private controller: AbortController | undefined;
  private returned: Promise<void> | undefined;
  private markOver!: () => void;
  private readonly unsubscribe: () => void;
  private readonly guard: NodeGuard;

  constructor(
    readonly client: ZkClient,
    parent: string,
    private readonly place: Place,
    readonly fencingToken: bigint,
  ) {
    this.path = parent;
    this.over = new Promise((resolve) => (this.markOver = resolve));
    this.unsubscribe = place.session.onUntrusted((reason) => this.lose(reason));
    this.guard = new NodeGuard(client, place, () =>
      this.lose(new Error(`somebody deleted ${place.path}`)),
    );
  }

  get held(): boolean {
    return this.state === 'held';
  }

  /** The holder let go, of a right that it still had or of one that it had lost. */
  get released(): boolean {
    return this.state === 'released' || (this.state === 'lost' && this.leases === 0);
  }

  get lost(): LeaseLostError | undefined {
    return this.reason;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.reason) this.controller.abort(this.reason);
    return this.controller.signal;
  }

  /** One more lease on the same right: the first, or a re-entry. */
  lease(key: string): Lease {
    this.leases++;
    return new GrantLease(this, key);
  }

  /** Nobody is left to take the right. */
  abandon(): void {
    if (this.state === 'held') this.end('released');
  }

  async returnLease(): Promise<void> {
    this.leases--;
    if (this.leases > 0) return;
    this.abandon();
    await this.returned;
  }

  private lose(reason: Error): void {
    if (this.state !== 'held') return;
    this.reason = new LeaseLostError(`the lock on ${this.path} was lost: ${reason.message}`, {
      cause: reason,
    });
    this.end('lost');
    this.controller?.abort(this.reason);
  }

  private end(state: 'released' | 'lost'): void {
    this.state = state;
    this.unsubscribe();
    this.guard.stop();
    // Sent here, so that it goes ahead of the create with which the next local waiter queues up.
    this.returned = this.place.session.discard(this.place.path);
    this.markOver();
  }
}

class GrantLease implements Lease {
  private returned: Promise<void> | undefined;

  constructor(
    private readonly grant: Grant,
    readonly key: string,
  ) {}

  get path(): string {
    return this.grant.path;
  }

  get fencingToken(): bigint {
    return this.grant.fencingToken;
  }

  get signal(): AbortSignal {
    return this.grant.signal;
  }

  get held(): boolean {
    return this.returned === undefined && this.grant.held;
  }

  release(): Promise<void> {
    this.returned ??= this.grant.returnLease();
    return this.returned;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
