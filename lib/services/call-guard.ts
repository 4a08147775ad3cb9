import type { Entry, Term } from '../recipes/index.js';
import { runLeading } from '../recipes/internals/call-chain.js';

/** A right that one call holds while it runs: a lease, or the leadership during one term. */
export interface CallGuard {
  readonly held: boolean;
  /** Aborts when the right is lost. The reason is the error that the call then fails with. */
  readonly signal: AbortSignal;
  /** Runs `fn` as the holder. */
  run<T>(fn: () => T): T;
  release(): Promise<void>;
}

/** Guards a call by a lease. */
export class LeaseGuard implements CallGuard {
  constructor(private readonly entry: Entry) {}

  get held(): boolean {
    return this.entry.lease.held;
  }

  get signal(): AbortSignal {
    return this.entry.lease.signal;
  }

  run<T>(fn: () => T): T {
    return this.entry.run(fn);
  }

  release(): Promise<void> {
    return this.entry.release();
  }
}

/** Guards a call by a term of leadership. */
export class TermGuard implements CallGuard {
  constructor(private readonly term: Term) {}

  get held(): boolean {
    return this.term.active;
  }

  get signal(): AbortSignal {
    return this.term.signal;
  }

  run<T>(fn: () => T): T {
    return runLeading(this.term, fn);
  }

  async release(): Promise<void> {
    // The leadership outlives the call; only the latch or selector ends it.
  }
}
