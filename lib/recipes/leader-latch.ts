import { BadOptionError, WaitCancelledError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { checkNames } from '../client/validation.js';
import { wait as pause } from '../client/sleep.js';
import { Candidate, CANDIDATE_OPTIONS, type CandidateOptions } from './candidate.js';
import { LockTimeoutError } from './errors.js';
import { LATCH } from './internals/participants.js';
import type { AcquireOptions } from './lease.js';
import type { LeaseTerm, Term } from './term.js';
import { checkAcquire, LONGEST_TIMER } from './internals/waiter.js';

/*
 * Leader latch (Curator's LeaderLatch):
 *
 *   1. Create an ephemeral sequential node `_c_<uuid>-latch-` under the path, with the participant's id.
 *   2. The lowest sequence number leads, until its node goes; everybody else watches the node just
 *      before its own.
 *   3. Whoever loses its node queues up again, with a new one.
 */

/**
 * Whether the listeners hear of the end of a leadership that ends because the latch is closed.
 * Curator's CloseMode.
 *
 * @publicApi
 */
export type CloseMode = 'silent' | 'notify';

/**
 * What a {@link LeaderLatch} takes beside its path.
 *
 * @publicApi
 */
export interface LeaderLatchOptions extends CandidateOptions {
  /** Where `close()` says nothing. Default `'silent'`. */
  closeMode?: CloseMode;
}

const LATCH_OPTIONS = [...CANDIDATE_OPTIONS, 'closeMode'] satisfies (keyof LeaderLatchOptions)[];

/**
 * Takes part in the election on the znode `path` until it is closed, together with every Curator
 * `LeaderLatch` there. Whoever leads does so until it closes, resigns, or loses its session, or its
 * connection under the policy `'standard'`; then it queues up again.
 *
 * @publicApi
 */
export class LeaderLatch extends Candidate {
  protected override readonly marker = LATCH;
  private readonly closeMode: CloseMode;

  constructor(client: ZkClient, path: string, options: LeaderLatchOptions = {}) {
    super(client, path, options);
    checkNames(options, LATCH_OPTIONS);
    this.closeMode = checkCloseMode(options.closeMode ?? 'silent');
  }

  /**
   * Resolves with the term once this participant leads.
   *
   * @throws LockTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the
   *   signal; IllegalStateError where the latch is not started, or closed meanwhile; and what keeps it
   *   from taking part: ConnectionError once the retry policy gives up, NotAuthorizedError,
   *   ForeignNodeError
   */
  async await(options: Pick<AcquireOptions, 'wait' | 'signal'> = {}): Promise<Term> {
    checkAcquire(options);
    const { wait, signal } = options;
    const deadline = performance.now() + (wait ?? Infinity);
    for (;;) {
      if (this.state === 'latent') throw this.illegal('is not started: call start() first');
      this.closing.signal.throwIfAborted();
      if (signal?.aborted) throw this.cancelled(signal);
      if (this.term) return this.term;
      if (this.failure) throw this.failure;
      const left = deadline - performance.now();
      if (left <= 0) throw this.timedOut(wait!);
      await this.newsWithin(left, signal);
    }
  }

  /**
   * Gives the leadership up and queues up again behind all others. Nothing where it does not lead.
   *
   * @throws IllegalStateError where it is not started, or closed
   */
  async resign(): Promise<void> {
    if (this.state !== 'started') throw this.illegal(`is ${this.state}`);
    await this.present?.giveBack();
  }

  /**
   * Leaves the election, whether it leads, waits or is about to start. `hasLeadership` is false at
   * once; resolves when the znode is gone, as {@link Lease.release} does. Idempotent.
   */
  async close(mode: CloseMode = this.closeMode): Promise<void> {
    await this.end(checkCloseMode(mode) === 'silent');
  }

  protected override lead({ signal }: LeaseTerm): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  private async newsWithin(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await pause(Math.min(milliseconds, LONGEST_TIMER), {
        signals: [signal, this.closing.signal],
        until: (wake) => this.news.add(wake),
        ref: true,
      });
    } catch {
      // The next look says which of them it was.
    }
  }

  private timedOut(wait: number): LockTimeoutError {
    const election = JSON.stringify(this.key);
    return new LockTimeoutError(`election ${election} was not won within ${wait} ms`, {
      key: this.key,
    });
  }

  private cancelled({ reason }: AbortSignal): WaitCancelledError {
    const election = JSON.stringify(this.key);
    return new WaitCancelledError(`the wait to lead election ${election} was cancelled`, {
      key: this.key,
      cause: reason,
    });
  }
}

function checkCloseMode(mode: unknown): CloseMode {
  if (mode === 'silent' || mode === 'notify') return mode;
  throw new BadOptionError('closeMode', mode, "'silent' or 'notify'");
}
