import type { Lease, MultiLease } from '../recipes/index.js';
import { leaseToJSON } from '../recipes/lease-json.js';

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
