import { CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { isAbortBy } from '../client/sleep.js';
import { BOOLEAN, checkFunction, checkOptions, type Rules } from '../client/validation.js';
import { Candidate } from './candidate.js';
import { CANDIDATE_RULES, type CandidateOptions } from './candidate-options.js';
import { currentTerm, runLeading } from '../kernel/call-chain.js';
import { LOCK } from '../kernel/node-names.js';
import type { LeaseTerm, Term } from '../kernel/term.js';

/*
 * Leader selector (Curator's LeaderSelector): a mutex at the path. Its holder runs `takeLeadership` and releases the mutex
 * when that returns. The data of each znode is the id of its participant.
 */

/**
 * The options of a {@link LeaderSelector}.
 *
 * @publicApi
 */
export interface LeaderSelectorOptions extends CandidateOptions {
  /** Whether it joins the queue again after each term, until it is closed. If false, each `requeue()` is for one term. Default false. */
  autoRequeue?: boolean | undefined;
}

export const SELECTOR_RULES: Rules<LeaderSelectorOptions> = {
  ...CANDIDATE_RULES,
  autoRequeue: BOOLEAN,
};

/**
 * The work of a leader during its term.
 *
 * @publicApi
 */
export type TakeLeadership = (term: Term) => void | Promise<void>;

/**
 * An error that `takeLeadership` throws to give the leadership up without a report. Curator's
 * CancelLeadershipException.
 * Cause: `takeLeadership` of the application throws it.
 * Remedy: none. The selector releases the leadership and does not report the error.
 *
 * @publicApi
 */
export class CancelLeadershipError extends CoordinationError {
  readonly code = 'CANCEL_LEADERSHIP';

  constructor(message = 'the leader gave the leadership up') {
    super(message);
  }
}

/**
 * A participant of the election on the znode `path`. It shares the path with Curator's `LeaderSelector`. Once elected it
 * runs `takeLeadership`, and gives the leadership up when that has settled, also after `interruptLeadership` or `close`,
 * so that the next leader never works beside it. `takeLeadership` must therefore end when the signal of its term aborts.
 *
 * Errors of `takeLeadership` are passed to `onError`.
 *
 * @publicApi
 */
export class LeaderSelector extends Candidate {
  protected override readonly marker = LOCK;
  private readonly autoRequeue: boolean;

  constructor(
    client: ZkClient,
    path: string,
    private readonly takeLeadership: TakeLeadership,
    options: LeaderSelectorOptions = {},
  ) {
    super(client, path, checkOptions(options, SELECTOR_RULES));
    checkFunction(takeLeadership, 'takeLeadership');
    this.autoRequeue = options.autoRequeue ?? false;
  }

  /**
   * Joins the queue for another term, or for one after the current term. Returns false if it is in the queue already.
   *
   * @throws IllegalStateError if it is not started, or closed
   */
  requeue(): boolean {
    if (this.state !== 'started') throw this.illegal(`is ${this.state}`);
    if (this.continues) return false;
    this.continues = true;
    this.join();
    return true;
  }

  /** Aborts the signal of the current term. Returns false if it does not lead. */
  interruptLeadership(): boolean {
    if (!this.hasLeadership) return false;
    this.current!.end('interrupted');
    return true;
  }

  /**
   * As {@link interruptLeadership}, but resolves when `takeLeadership` has settled and the znode is deleted, as
   * {@link Lease.release} does, or at once if `takeLeadership` itself calls it. It joins the queue again with
   * `autoRequeue`, or if {@link requeue} was called.
   *
   * @throws IllegalStateError if it is not started, or closed
   */
  async resign(): Promise<void> {
    if (this.state !== 'started') throw this.illegal(`is ${this.state}`);
    const { byLeader } = this;
    this.interruptLeadership();
    if (!byLeader) await this.termOver;
  }

  /**
   * Leaves the election and aborts the signal of a current term. Resolves when `takeLeadership` has settled and the znode
   * is deleted, as {@link Lease.release} does, or at once if `takeLeadership` itself calls it. Idempotent.
   */
  async close(): Promise<void> {
    const { byLeader } = this;
    const ended = this.end(false);
    if (!byLeader) await ended;
  }

  /** Whether the caller is `takeLeadership`, which would wait for itself. */
  private get byLeader(): boolean {
    return this.current !== undefined && currentTerm(this.key) === this.current;
  }

  protected override async lead(term: LeaseTerm): Promise<void> {
    this.continues = this.autoRequeue;
    try {
      await runLeading(term, async () => this.takeLeadership(term));
    } catch (error) {
      // An error by the signal of the term is the expected end.
      if (!(error instanceof CancelLeadershipError || isAbortBy(term.signal, error)))
        this.reportError(error);
    }
  }
}
