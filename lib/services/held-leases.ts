import type { Lease, MultiLease } from '../recipes/index.js';
import { leaseToJSON } from '../recipes/lease.js';
import { FifoSet } from '../recipes/internals/fifo-set.js';

/** The leases that a service has given out and that did not come back: what a shutdown waits for. */
export class HeldLeases {
  private readonly leases = new FifoSet<Lease>();
  private onEmpty: (() => void) | undefined;

  [Symbol.iterator](): Iterator<Lease> {
    return this.leases[Symbol.iterator]();
  }

  add(lease: Lease): void {
    this.leases.add(lease);
  }

  delete(lease: Lease): void {
    this.leases.delete(lease);
    if (this.leases.size === 0) this.onEmpty?.();
  }

  /** Forgets what was lost, for holders who never give a lost lease back. */
  sweep(): void {
    for (const lease of this.leases) if (!isHeld(lease)) this.delete(lease);
  }

  has(path: string): boolean {
    for (const lease of this.leases) {
      if (partsOf(lease).some((part) => part.path === path && part.held)) return true;
    }
    return false;
  }

  /** Waits until all came back, at most `limit` milliseconds; the keys of those that did not. */
  async drained(limit: number): Promise<string[]> {
    // What is lost meanwhile need not come back.
    const lost = () => this.sweep();
    for (const { signal } of [...this.leases].flatMap(partsOf)) {
      signal.addEventListener('abort', lost, { once: true });
    }
    this.sweep();
    if (this.leases.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limit);
        this.onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.onEmpty = undefined;
    }
    return [...this.leases].filter(isHeld).map((lease) => lease.key);
  }
}

/** At least in part: a multi-lock that lost one of its locks still holds the others. */
function isHeld(lease: Lease): boolean {
  return partsOf(lease).some((part) => part.held);
}

/** The lease, or the leases that it consists of. */
export function partsOf(lease: Lease): readonly Lease[] {
  return isMultiLease(lease) ? lease.leases : [lease];
}

/** A lease that tells when it is given back. */
export function trackedLease<L extends Lease>(lease: L, onReleased: () => void): L {
  // The wrapper has all that there is to a lease of this kind.
  const tracked: Lease = isMultiLease(lease)
    ? new TrackedMultiLease(lease, onReleased)
    : new TrackedLease(lease, onReleased);
  return tracked as L;
}

function isMultiLease(lease: Lease): lease is MultiLease {
  return 'leases' in lease;
}

class TrackedLease<L extends Lease> implements Lease {
  constructor(
    protected readonly lease: L,
    private readonly onReleased: () => void,
  ) {}

  get key(): string {
    return this.lease.key;
  }

  get path(): string {
    return this.lease.path;
  }

  get fencingToken(): bigint {
    return this.lease.fencingToken;
  }

  get signal(): AbortSignal {
    return this.lease.signal;
  }

  get revocation(): AbortSignal {
    return this.lease.revocation;
  }

  get held(): boolean {
    return this.lease.held;
  }

  async release(): Promise<void> {
    try {
      await this.lease.release();
    } finally {
      this.onReleased();
    }
  }

  toJSON(): object {
    return leaseToJSON(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

class TrackedMultiLease extends TrackedLease<MultiLease> implements MultiLease {
  get leases(): readonly Lease[] {
    return this.lease.leases;
  }
}
