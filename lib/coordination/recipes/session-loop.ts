import { setMaxListeners } from 'node:events';
import {
  ConnectionError,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  type ZkClient,
} from '../../client/index.js';
import { runDetached } from '../../kernel/index.js';
import type { ErrorReporter } from './internals/error-reporter.js';
import { retryPause } from './internals/retry-pause.js';

/**
 * The work of a {@link SessionLoop} in one session. Its promise rejects when the session ends, a request fails, or `signal`
 * aborts. It never resolves.
 */
type SessionTask = (session: Session, signal: AbortSignal) => Promise<never>;

/**
 * Repeats an attempt in one session after the other until it is closed. The base of the recipes that survive the loss of
 * a session. Errors are reported, and tried again after a pause.
 */
export class SessionLoop {
  private readonly closing = new AbortController();
  private running: Promise<void> | undefined;

  constructor(
    private readonly client: ZkClient,
    private readonly task: SessionTask,
    private readonly reporter: Pick<ErrorReporter, 'reportOnce'>,
  ) {
    // Node warns about more than 10 listeners, and each wait adds one.
    setMaxListeners(0, this.closing.signal);
  }

  /** Aborts when the loop or its client is closed. */
  get signal(): AbortSignal {
    return this.closing.signal;
  }

  get state(): 'latent' | 'started' | 'closed' {
    if (this.closing.signal.aborted) return 'closed';
    return this.running ? 'started' : 'latent';
  }

  start(): void {
    // The loop outlives the caller and must not count as a holder of the caller's locks.
    this.running = runDetached(() => this.run());
  }

  /** Aborts the attempt, and resolves when it has settled. */
  async close(reason: Error): Promise<void> {
    this.closing.abort(reason);
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      try {
        await this.task(await this.client.session({ signal }), signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ShuttingDownError) return this.closing.abort(error);
        // The end of a session is no failure. The loop continues in the next session.
        if (error instanceof SessionExpiredError) continue;
        this.reporter.reportOnce(error);
        await retryPause(this.client, signal);
      }
    }
  }
}

/** Whether a failed attempt leaves the znodes of `session` in place, because the next one may continue with them. */
export function keepsZnodes(session: Session, error: unknown): boolean {
  return session.alive && error instanceof ConnectionError;
}
