import { BadOptionError, CoordinationError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { checkFunction, checkNames } from '../client/validation.js';
import { Candidate, CANDIDATE_OPTIONS, type CandidateOptions } from './candidate.js';
import { currentTerm, runLeading } from './internals/call-chain.js';
import { SELECTOR } from './internals/participants.js';
import type { LeaseTerm, Term } from './term.js';

/*
 * Leader selector (Curator's LeaderSelector): a mutex at the path, whose holder runs `takeLeadership`
 * and gives it back when that returns; each node says whose it is.
 */

/**
 * What a {@link LeaderSelector} takes beside its path.
 *
 * @publicApi
 */
export interface LeaderSelectorOptions extends CandidateOptions {
  /** Queues up again after each term, until it is closed. Default false: one term for each `requeue()`. */
  autoRequeue?: boolean;
}

const SELECTOR_OPTIONS = [
  ...CANDIDATE_OPTIONS,
  'autoRequeue',
] satisfies (keyof LeaderSelectorOptions)[];

/** What a leader does with its term. @publicApi */
export type TakeLeadership = (term: Term) => void | Promise<void>;

/**
 * Thrown by a `takeLeadership` that gives up: the leadership is relinquished and nothing reported.
 * Curator's CancelLeadershipException.
 *
 * @publicApi
 */
export class CancelLeadership extends CoordinationError {
  readonly code = 'CANCEL_LEADERSHIP';

  constructor(message = 'the leader gave up') {
    super(message);
  }
}

/**
 * Takes part in the election on the znode `path`, together with every Curator `LeaderSelector` there.
 * Once elected it runs `takeLeadership`, and relinquishes when that has settled. Its place is kept till
 * then, also after `interruptLeadership` or `close`, so that the next leader never works beside it: a
 * `takeLeadership` must end when its term's signal aborts.
 *
 * What `takeLeadership` throws goes to `onError`.
 *
 * @publicApi
 */
export class LeaderSelector extends Candidate {
  protected override readonly marker = SELECTOR;
  private readonly autoRequeue: boolean;

  constructor(
    client: ZkClient,
    path: string,
    private readonly takeLeadership: TakeLeadership,
    options: LeaderSelectorOptions = {},
  ) {
    super(client, path, options);
    checkNames(options, SELECTOR_OPTIONS);
    const { autoRequeue = false } = options;
    checkFunction(takeLeadership, 'takeLeadership');
    if (typeof autoRequeue !== 'boolean') {
      throw new BadOptionError('autoRequeue', autoRequeue, 'true or false');
    }
    this.autoRequeue = autoRequeue;
  }

  /**
   * Queues up for another term; while it leads, for one after the present. False where it is queued
   * already.
   *
   * @throws IllegalStateError where it is not started, or closed
   */
  requeue(): boolean {
    if (this.state !== 'started') throw this.illegal(`is ${this.state}`);
    if (this.wanted) return false;
    this.wanted = true;
    this.stand();
    return true;
  }

  /** Aborts the signal of the present term. False where it does not lead. */
  interruptLeadership(): boolean {
    if (!this.hasLeadership) return false;
    this.present!.end('interrupted');
    return true;
  }

  /**
   * As {@link interruptLeadership}, but resolves when `takeLeadership` has settled and the znode is gone,
   * as {@link Lease.release} does, or at once where `takeLeadership` itself calls it. It queues up again
   * with `autoRequeue`, or where {@link requeue} was called.
   *
   * @throws IllegalStateError where it is not started, or closed
   */
  async resign(): Promise<void> {
    if (this.state !== 'started') throw this.illegal(`is ${this.state}`);
    const { byLeader } = this;
    this.interruptLeadership();
    if (!byLeader) await this.serving;
  }

  /**
   * Leaves the election: the signal of a present term aborts. Resolves when `takeLeadership` has
   * settled and the znode is gone, as {@link Lease.release} does, or at once where `takeLeadership`
   * itself calls it. Idempotent.
   */
  async close(): Promise<void> {
    const { byLeader } = this;
    const ended = this.end(false);
    if (!byLeader) await ended;
  }

  /** The caller is `takeLeadership`: it would wait for itself. */
  private get byLeader(): boolean {
    return this.present !== undefined && currentTerm(this.key) === this.present;
  }

  protected override async lead(term: LeaseTerm): Promise<void> {
    this.wanted = this.autoRequeue;
    try {
      await runLeading(term, async () => this.takeLeadership(term));
    } catch (error) {
      // To stop by the term's signal is to do as told.
      if (!(error instanceof CancelLeadership || isAbortBy(term.signal, error))) this.tell(error);
    }
  }
}

/** What waits with a signal reject with: its reason, or an error of their own that is caused by it. */
function isAbortBy({ aborted, reason }: AbortSignal, error: unknown): boolean {
  return aborted && (error === reason || (error instanceof Error && error.cause === reason));
}
