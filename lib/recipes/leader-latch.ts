import type { ZkClient } from '../client/index.js';
import { MAX_TIMER, sleep as pause } from '../client/sleep.js';
import { checkOptions, checkValue, oneOf, type Rules } from '../client/validation.js';
import { Candidate } from './candidate.js';
import { CANDIDATE_RULES, type CandidateOptions } from './candidate-options.js';
import { LockTimeoutError } from '../kernel/errors.js';
import { LATCH } from '../kernel/participants.js';
import { cancelled } from '../kernel/waiter.js';
import { type AcquireOptions, WAIT_RULES } from '../kernel/lease.js';
import type { LeaseTerm, Term } from '../kernel/term.js';

/*
 * Leader latch (Curator's LeaderLatch):
 *
 *   1. Create an ephemeral sequential znode `_c_<uuid>-latch-` under the path, with the id of the participant.
 *   2. The znode with the lowest sequence number leads until it is deleted. All others watch the one just ahead.
 *   3. A candidate that has lost its znode joins again with a new one.
 */

/**
 * Whether the listeners are called when a leadership ends because the latch is closed: `'silent'` calls none, `'notify'`
 * calls them with undefined. Curator's CloseMode.
 *
 * @publicApi
 */
export type CloseMode = 'silent' | 'notify';

/**
 * The options of a {@link LeaderLatch}.
 *
 * @publicApi
 */
export interface LeaderLatchOptions extends CandidateOptions {
  /** The mode of `close()` without an argument. Default `'silent'`. */
  closeMode?: CloseMode | undefined;
}

const closeModeRule = oneOf('silent', 'notify');
const LATCH_RULES: Rules<LeaderLatchOptions> = { ...CANDIDATE_RULES, closeMode: closeModeRule };

/**
 * A participant of the election on the znode `path`. It shares the path with Curator's `LeaderLatch`. A leader leads until
 * it closes, resigns, or loses its session (under the policy `'standard'` its connection). Unless it was closed, it joins
 * the election again.
 *
 * @publicApi
 */
export class LeaderLatch extends Candidate {
  protected override readonly marker = LATCH;
  private readonly closeMode: CloseMode;

  constructor(client: ZkClient, path: string, options: LeaderLatchOptions = {}) {
    super(client, path, checkOptions(options, LATCH_RULES));
    this.closeMode = options.closeMode ?? 'silent';
  }

  /**
   * Resolves to the term when this participant leads.
   *
   * @throws LockTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   IllegalStateError if the latch is not started, or is closed meanwhile; and the error that keeps it from the election:
   *   ConnectionError when the retry policy gives up, NotAuthorizedError, RecipeConflictError
   */
  async await(options: Pick<AcquireOptions, 'wait' | 'signal'> = {}): Promise<Term> {
    checkOptions(options, WAIT_RULES);
    const { wait, signal } = options;
    const deadline = performance.now() + (wait ?? Infinity);
    for (;;) {
      if (this.state === 'latent') throw this.illegal('is not started: call start() first');
      this.closing.signal.throwIfAborted();
      if (signal?.aborted) throw cancelled({ noun: 'election', key: this.key }, signal);
      if (this.term) return this.term;
      if (this.failure) throw this.failure;
      const left = deadline - performance.now();
      if (left <= 0) throw this.timedOut(wait!);
      await this.untilChange(left, signal);
    }
  }

  /**
   * Gives the leadership up and joins the queue again behind all others. Does nothing if it does not lead.
   *
   * @throws IllegalStateError if it is not started, or closed
   */
  async resign(): Promise<void> {
    if (this.state !== 'started') throw this.illegal(`is ${this.state}`);
    await this.current?.release();
  }

  /**
   * Leaves the election, also while it waits or starts. `hasLeadership` is false at once. Resolves when the znode is
   * deleted, as {@link Lease.release} does. Idempotent.
   */
  async close(mode: CloseMode = this.closeMode): Promise<void> {
    checkValue('closeMode', mode, closeModeRule);
    await this.end(mode === 'silent');
  }

  protected override lead({ signal }: LeaseTerm): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  private async untilChange(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await pause(Math.min(milliseconds, MAX_TIMER), {
        signals: [signal, this.closing.signal],
        until: (wake) => this.leadershipWaiters.add(wake),
        ref: true,
      });
    } catch {
      // The caller checks which signal it was.
    }
  }

  private timedOut(wait: number): LockTimeoutError {
    const election = JSON.stringify(this.key);
    return new LockTimeoutError(`election ${election} was not won within ${wait} ms`, {
      key: this.key,
    });
  }
}
