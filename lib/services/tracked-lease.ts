import type { Lease } from '../recipes/index.js';

/** A lease that tells when it is given back. */
export class TrackedLease implements Lease {
  constructor(
    private readonly lease: Lease,
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

  get held(): boolean {
    return this.lease.held;
  }

  async release(): Promise<void> {
    await this.lease.release();
    this.onReleased();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
