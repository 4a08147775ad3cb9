/** What a call needs to run, had for the time of that call: a lease, or the leadership of a term. */
export interface Holding {
  readonly held: boolean;
  /** Aborts, with the error to fail with, when it is lost. */
  readonly signal: AbortSignal;
  /** Runs `fn` as the holder. */
  run<T>(fn: () => T): T;
  release(): Promise<void>;
}
