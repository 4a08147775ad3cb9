import type { Lease, MultiLease } from '../recipes/index.js';
import { leaseToJSON } from '../recipes/lease.js';

/** Returns the leases that a multi-lock's lease consists of; of any other lease the lease itself. */
export function partsOf(lease: Lease): readonly Lease[] {
  return isMultiLease(lease) ? lease.leases : [lease];
}

/** Wraps a lease so that `onReleased` is called when its release has settled. */
export function trackedLease<L extends Lease>(lease: L, onReleased: () => void): L {
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
