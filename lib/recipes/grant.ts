import type { ZkClient } from '../client/index.js';
import { LeaseLostError, LockRevokedError } from './errors.js';
import { fencingToken } from './fencing-token.js';
import type { AcquireOptions, Lease } from './lease.js';
import { NodeWatch } from './node-watch.js';
import type { Place } from './queue.js';
import { LONGEST_TIMER } from './wait.js';

/** Whose rights exclude or share each other on one path. */
export type Recipe = 'mutex' | 'read' | 'write' | 'semaphore' | 'election';

/**
 * A right to a lock: `held` until every lease on it was released, or until its session can no longer
 * be trusted, somebody deletes its node, or its time is up.
 */
export class Grant {
  /** Resolves when the right is over, and its nodes' deletion was sent where there is anything to delete. */
  readonly over: Promise<void>;
  readonly fencingToken: bigint;
  private state: 'held' | 'released' | 'lost' = 'held';
  private leases = 0;
  private reason: LeaseLostError | undefined;
  private revoked: LockRevokedError | undefined;
  private readonly loss = new LazySignal();
  private readonly request = new LazySignal();
  private returned: Promise<void> | undefined;
  private markOver!: () => void;
  private deletionSent = false;
  private keepUntil = 0;
  private endKeeping: (() => void) | undefined;
  private timeLimit: NodeJS.Timeout | undefined;
  private readonly unsubscribe: () => void;
  private readonly watch: NodeWatch;

  constructor(
    readonly client: ZkClient,
    readonly recipe: Recipe,
    readonly path: string,
    readonly place: Place,
  ) {
    this.fencingToken = fencingToken(place.pzxid);
    this.over = new Promise((resolve) => (this.markOver = resolve));
    this.unsubscribe = place.session.onUntrusted((reason) => this.lose(reason));
    this.watch = new NodeWatch(client, place, {
      gone: (node) => {
        this.endKeeping?.();
        this.lose(new Error(`somebody deleted ${node}`));
      },
      revoked: () => this.revoke(),
    });
  }

  get held(): boolean {
    // The session's clock is read: after a pause, code may ask before any timer could tell of the loss.
    return this.state === 'held' && this.place.session.trusted;
  }

  /** Its nodes may still be there: it is held, or kept taken by `holdAtLeast`. */
  get occupied(): boolean {
    return !this.deletionSent;
  }

  /** The holder let go, of a right that it still had or of one that it had lost. */
  get released(): boolean {
    return this.state === 'released' || (this.state === 'lost' && this.leases === 0);
  }

  get lost(): LeaseLostError | undefined {
    return this.reason;
  }

  get signal(): AbortSignal {
    return this.loss.signal;
  }

  get revocation(): AbortSignal {
    this.watch.start();
    return this.request.signal;
  }

  /** Sets how long the right lasts at least and at most, counted from now. */
  limit({ holdAtLeast = 0, holdAtMost = Infinity }: AcquireOptions): void {
    this.keepUntil = performance.now() + holdAtLeast;
    if (holdAtMost === Infinity) return;
    this.timeLimit = setTimeout(
      () => this.lose(new Error(`it was held for ${holdAtMost} ms, its holdAtMost`)),
      Math.min(holdAtMost, LONGEST_TIMER),
    );
    this.timeLimit.unref();
  }

  /** One more lease on the same right: the first, or a re-entry. */
  lease(key: string): Lease {
    return new GrantLease(this, key, ++this.leases === 1);
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

  private revoke(): void {
    if (this.state !== 'held') return;
    this.revoked ??= new LockRevokedError(`somebody asked for the lease on ${this.path}`);
    this.request.abort(this.revoked);
  }

  private lose(cause: Error): void {
    if (this.state !== 'held') return;
    const message = `the lease on ${this.path} was lost: ${cause.message}`;
    this.reason = new LeaseLostError(message, { cause });
    this.end('lost');
    this.loss.abort(this.reason);
  }

  private end(state: 'released' | 'lost'): void {
    this.state = state;
    this.unsubscribe();
    clearTimeout(this.timeLimit);
    const keepFor = this.keepUntil - performance.now();
    if (state === 'released' && keepFor > 0) {
      this.returned = Promise.resolve();
      this.keep(keepFor);
    } else {
      this.watch.stop();
      // Sent here, so that it goes ahead of the create with which the next local waiter queues up.
      this.returned = this.giveBack();
    }
  }

  /** Leaves the nodes where they are; without them nobody is kept out, and our own waiters need not wait. */
  private keep(milliseconds: number): void {
    const timer = setTimeout(() => this.endKeeping?.(), milliseconds).unref();
    const unsubscribe = this.place.session.onLost(() => this.endKeeping?.());
    this.endKeeping = () => {
      this.endKeeping = undefined;
      clearTimeout(timer);
      unsubscribe();
      this.watch.stop();
      void this.giveBack();
    };
  }

  private async giveBack(): Promise<void> {
    const { session, nodes } = this.place;
    const discarded = Promise.all(nodes.map((node) => session.discard(node)));
    this.deletionSent = true;
    this.markOver();
    await discarded;
  }
}

/** The grant behind a lease that a lock of ours gave out. */
export function grantOf(lease: Lease): Grant | undefined {
  return lease instanceof GrantLease ? lease.grant : undefined;
}

/** Whether a lease is the first on its right, not a re-entry. */
export function isFirst(lease: Lease): boolean {
  return lease instanceof GrantLease && lease.first;
}

/** An AbortSignal that costs nothing until somebody looks at it. */
class LazySignal {
  private controller: AbortController | undefined;
  private reason: unknown;

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.reason !== undefined) this.controller.abort(this.reason);
    return this.controller.signal;
  }

  abort(reason: unknown): void {
    this.reason = reason;
    this.controller?.abort(reason);
  }
}

class GrantLease implements Lease {
  private returned: Promise<void> | undefined;

  constructor(
    readonly grant: Grant,
    readonly key: string,
    readonly first: boolean,
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

  get revocation(): AbortSignal {
    return this.grant.revocation;
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
