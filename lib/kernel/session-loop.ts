import { setMaxListeners } from 'node:events';
import {
  ConnectionError,
  type Session,
  ShuttingDownError,
  type ZkClient,
} from '../client/index.js';
import { sleep } from '../client/sleep.js';
import { runDetached } from './call-chain.js';
import type { ErrorReporter } from './error-reporter.js';
import { IllegalStateError } from './errors.js';
import { inEachSession } from './session-retry.js';

/** Milliseconds between a failure and the next attempt. */
export const RETRY_AFTER = 1000;
/** Milliseconds between two reads of a znode that the credentials of the client may not read. */
export const RETRY_REFUSED_AFTER = 30_000;
/** Milliseconds that the close of a recipe waits for the replies to its last requests. */
export const CLOSE_TIMEOUT = 2000;

/** Resolves after {@link RETRY_AFTER}, or earlier when the connection state changes or `signal` aborts. */
export async function retryPause(client: ZkClient, signal: AbortSignal): Promise<void> {
  const until = (wake: () => void) => client.onState(wake);
  // It rejects only by the signal, which the callers check.
  await sleep(RETRY_AFTER, { signals: [signal], until }).catch(() => {});
}

/**
 * Repeats a task in one session after the other until it is closed. Errors are reported, and tried again after a pause. The
 * promise of the task rejects when the session ends, a request fails, or the signal aborts. It never resolves.
 */
export class SessionLoop {
  private readonly closing = new AbortController();
  private running: Promise<void> | undefined;

  constructor(
    private readonly client: ZkClient,
    private readonly task: (session: Session, signal: AbortSignal) => Promise<never>,
    private readonly report: (error: unknown) => void,
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

  /** Aborts the task, and resolves when it has settled. */
  async close(reason: Error): Promise<void> {
    this.closing.abort(reason);
    await this.running;
  }

  private async run(): Promise<void> {
    const { client, closing } = this;
    const { signal } = closing;
    const attempt = (session: Session) => this.task(session, signal);
    try {
      await inEachSession(client, signal, attempt, async (error) => {
        if (error instanceof ShuttingDownError) throw error;
        this.report(error);
        await retryPause(client, signal);
      });
    } catch (error) {
      if (!signal.aborted) closing.abort(error);
    }
  }
}

/** A recipe that takes part in the background from `start()` until `close()`, in one session after the other. */
export abstract class BackgroundRecipe {
  protected readonly loop: SessionLoop;
  private unsubscribe: (() => void) | undefined;
  private closed: Promise<void> | undefined;

  constructor(
    readonly client: ZkClient,
    /** The znode, or the parent of the znodes. */
    readonly path: string,
    protected readonly reporter: ErrorReporter,
  ) {
    const task = (session: Session, signal: AbortSignal) => this.attempt(session, signal);
    this.loop = new SessionLoop(client, task, (error) => this.onFailure(error));
  }

  /** `'started'` from `start()` until `close()`, also while the connection is lost. */
  get state(): 'latent' | 'started' | 'closed' {
    return this.closed ? 'closed' : this.loop.state;
  }

  /** Aborts when it is closed, also by the end of its client. */
  get signal(): AbortSignal {
    return this.loop.signal;
  }

  /**
   * Takes part in the background.
   *
   * @throws IllegalStateError if it was started or closed before
   */
  start(): void {
    if (this.state !== 'latent') throw this.illegal(`was ${this.state} already`);
    this.loop.start();
  }

  /** Ends its part, as the class describes. Idempotent. */
  close(): Promise<void> {
    this.closed ??= this.end();
    return this.closed;
  }

  /** The name in errors. */
  protected abstract readonly label: string;

  /** Takes part in one session. Never resolves. */
  protected abstract participate(session: Session, signal: AbortSignal): Promise<never>;

  /** Ends the loop and deletes what it has created. */
  protected abstract end(): Promise<void>;

  protected abstract onSessionLost(): void;

  /** Called after a failed attempt, unless the next one may continue with its znodes. */
  protected async leave(): Promise<void> {}

  protected onFailure(error: unknown): void {
    this.reporter.reportOnce(error);
  }

  protected stopListening(): void {
    this.unsubscribe?.();
  }

  protected illegal(what: string): IllegalStateError {
    return new IllegalStateError(`${this.label} ${what}`, { key: this.path });
  }

  private async attempt(session: Session, signal: AbortSignal): Promise<never> {
    this.unsubscribe?.();
    this.unsubscribe = session.onLost(() => this.onSessionLost());
    try {
      return await this.participate(session, signal);
    } catch (error) {
      const keepsZnodes = session.alive && error instanceof ConnectionError;
      if (!signal.aborted && !keepsZnodes) await this.leave();
      throw error;
    }
  }
}
