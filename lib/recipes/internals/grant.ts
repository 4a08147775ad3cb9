import type { GrantKind } from '../diagnostics/index.js';
import type { OpenHold } from '../diagnostics/publish.js';
import { AT_ONCE } from './fencing-token.js';
import { LeaseLostError, type LockRevokedError } from '../errors.js';
import type { AcquireOptions, Lease } from '../lease.js';
import { leaseToJSON } from '../lease.js';
import type { Tenure } from './tenure.js';
import { LONGEST_TIMER } from './wait.js';

/** Whose rights exclude or share each other on one path. */
export type Recipe = 'mutex' | 'read' | 'write' | 'semaphore' | 'election';

type HoldLimits = Pick<AcquireOptions, 'holdAtLeast' | 'holdAtMost'>;

/**
 * A right to a lock: `held` until every lease on it was released, its time is up, or its tenure is lost.
 */
export class Grant {
  private state: 'held' | 'released' | 'lost' = 'held';
  private leases = 0;
  private reason: LeaseLostError | undefined;
  private readonly loss = new LazySignal();
  private readonly request = new LazySignal();
  private returned: Promise<void> | undefined;
  private keepUntil = 0;
  private keeping: NodeJS.Timeout | undefined;
  private timeLimit: NodeJS.Timeout | undefined;
  /** Where anybody listens. */
  telling: OpenHold | undefined;

  constructor(
    readonly tenure: Tenure,
    readonly fencingToken: bigint,
    readonly kind: GrantKind = 'cold',
  ) {}

  get held(): boolean {
    // The session's clock is read: after a pause, code may ask before any timer could tell of the loss.
    return this.state === 'held' && this.tenure.trusted;
  }

  /** The holder let go, of a right that it still had or of one that it had lost. */
  get released(): boolean {
    return this.state === 'released' || (this.state === 'lost' && this.leases === 0);
  }

  get lost(): LeaseLostError | undefined {
    return this.reason;
  }

  get signal(): AbortSignal {
    // The clock is read for whoever asks for the signal after a pause, too.
    void this.held;
    return this.loss.signal;
  }

  get revocation(): AbortSignal {
    this.tenure.watchNodes();
    return this.request.signal;
  }

  /** Sets how long the right lasts at least and at most, counted from now. */
  limit({ holdAtLeast = 0, holdAtMost = Infinity }: HoldLimits): void {
    if (holdAtLeast > 0) this.keepUntil = performance.now() + holdAtLeast;
    if (holdAtMost === Infinity) return;
    this.timeLimit = setTimeout(
      () => {
        const cause = new Error(`it was held for ${holdAtMost} ms, its holdAtMost`);
        const message = `the lease on ${this.tenure.path} was lost: ${cause.message}`;
        if (this.state !== 'held') return;
        this.end('lost', new LeaseLostError(message, { cause }));
        this.returned = this.tenure.returned(this);
        this.tellLoss();
      },
      Math.min(holdAtMost, LONGEST_TIMER),
    ).unref();
  }

  /** One more lease on the same right: the first, whose limits are its own, or a re-entry. */
  lease(key: string, limits: HoldLimits = {}): GrantLease {
    const first = ++this.leases === 1;
    if (first) this.limit(limits);
    return new GrantLease(this, key, first);
  }

  /** Nobody is left to take the right. */
  abandon(): void {
    if (this.state !== 'held') return;
    this.end('released');
    const keepFor = this.keepUntil - performance.now();
    if (this.keepUntil > 0 && keepFor > 0) {
      this.returned = AT_ONCE;
      // Without its nodes nobody is kept out, and who waits for them need not wait.
      this.keeping = setTimeout(() => void this.tenure.returned(this), keepFor).unref();
    } else {
      this.returned = this.tenure.returned(this);
    }
  }

  returnLease(): Promise<void> {
    if (--this.leases > 0) return AT_ONCE;
    this.abandon();
    return this.returned ?? this.tenure.giveBack();
  }

  revoke(reason: LockRevokedError): void {
    if (this.state === 'held') this.request.abort(reason);
  }

  /** By its tenure, or by time. */
  end(state: 'released' | 'lost', reason?: LeaseLostError): void {
    clearTimeout(this.timeLimit);
    clearTimeout(this.keeping);
    if (this.state !== 'held') return;
    this.state = state;
    this.reason = reason;
    this.telling?.end(reason);
  }

  tellLoss(): void {
    if (this.reason) this.loss.abort(this.reason);
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

/** One lease on a grant. Its holder releases it; the grant is released with the last of its leases. */
export class GrantLease implements Lease {
  private returned: Promise<void> | undefined;

  constructor(
    readonly grant: Grant,
    readonly key: string,
    readonly first: boolean,
  ) {}

  get path(): string {
    return this.grant.tenure.path;
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

  /** True since `release`, also where other leases on the same grant are held. */
  get released(): boolean {
    return this.returned !== undefined;
  }

  release(): Promise<void> {
    this.returned ??= this.grant.returnLease();
    return this.returned;
  }

  toJSON(): object {
    return leaseToJSON(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
