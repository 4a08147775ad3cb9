import type { ZkClient } from '../client/index.js';
import { untilAborted } from '../client/sleep.js';
import { checkOptions, checkValue, oneOf, type Rules } from '../client/validation.js';
import { Candidate } from './candidate.js';
import { CANDIDATE_RULES, type CandidateOptions } from './candidate-options.js';
import { LATCH } from '../kernel/node-names.js';
import { cancelled, timedOut, Waiter, type WaitRequest } from '../kernel/waiter.js';
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
    const { wait = Infinity, signal } = options;
    const { leadershipWaiters } = this;
    const closing = this.closing.signal;
    const subject = { noun: 'election', key: this.key } as const;
    const check = () => {
      if (this.state === 'latent') {
        waiter.reject(this.illegal('is not started: call start() first'));
      } else if (closing.aborted) waiter.reject(closing.reason);
      else if (signal?.aborted) waiter.reject(cancelled(subject, signal));
      else if (this.term) waiter.resolve(this.term);
      else if (this.failure) waiter.reject(this.failure);
      else if (wait === 0) waiter.reject(timedOut(subject, wait));
    };
    // A listener of the term, which is called later, may give the leadership up.
    const checkSoon = () => void Promise.resolve().then(check);
    const removeCheck = leadershipWaiters.add(checkSoon);
    const remove = () => {
      removeCheck();
      closing.removeEventListener('abort', check);
    };
    const waiter = new Waiter<Term, WaitRequest>({ subject, wait, signal }, { remove });
    closing.addEventListener('abort', check);
    check();
    return waiter.promise;
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
    return untilAborted(signal);
  }
}
