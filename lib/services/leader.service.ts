import { distinctUntilChanged, Observable, Subject, takeUntil } from 'rxjs';
import { BadOptionError, ShuttingDownError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { Listeners } from '../client/listeners.js';
import { sleep, whenSettled } from '../client/sleep.js';
import { BELOW_ROOT, checkOptions } from '../client/validation.js';
import {
  LeaderLatch,
  type LeaderParticipant,
  LeaderSelector,
  type Term,
} from '../recipes/index.js';
import type { CandidateOptions } from '../recipes/candidate-options.js';
import type { TakeLeadership } from '../recipes/leader-selector.js';
import { runLeading } from '../kernel/call-chain.js';
import { readCandidates } from '../kernel/participants.js';
import {
  ELECTION_RULES,
  type ElectionOptions,
  SELECT_RULES,
  type SelectOptions,
} from './election-options.js';
import { checkKey, electionPath, ticksPath } from './keys.js';
import { claimTick } from './tick-claims.js';

/**
 * A value of {@link LeaderService.changes}.
 *
 * @publicApi
 */
export interface LeadershipChange {
  readonly election: string;
  /** Whether this instance leads. */
  readonly isLeader: boolean;
  /** The term of this instance; undefined while it does not lead. */
  readonly term: Term | undefined;
}

/**
 * Elections by name, across all processes on the same ensemble and namespace: one of the participants
 * leads. This process joins an election at most once, by the first of these: the module's `elections`; a
 * method with `@LeaderOnly`, `@OnElected` or `@OnResigned`; a call of {@link latch}, {@link select},
 * {@link isLeader} or {@link term}; a subscription to {@link changes}. A shutdown resigns.
 *
 * @publicApi
 */
export class LeaderService {
  private readonly candidates = new Map<string, LeaderLatch | LeaderSelector>();
  /** Changes in all elections: a subscriber of one election survives a new candidate of this process. */
  private readonly changed = new Listeners<LeadershipChange>();
  private readonly shutdown = new Subject<void>();
  private refusal: ShuttingDownError | undefined;
  private closing: Promise<void> | undefined;

  /**
   * @param elections the default options of elections, by their names
   * @param participantId the default id of this process in elections; default: host name and process id
   * @param report receives errors that keep this process from joining an election, which it retries, and
   *   errors that a `takeLeadership` throws; default: a process warning
   */
  constructor(
    private readonly client: ZkClient,
    private readonly elections: ReadonlyMap<string, ElectionOptions> = new Map(),
    private readonly participantId?: string,
    private readonly report?: (election: string, error: unknown) => void,
  ) {}

  /**
   * Joins the election until the latch is closed. Returns the existing latch if this process has joined already.
   *
   * @throws BadOptionError if this process has joined with other options, or with `select`; ShuttingDownError
   */
  latch(election: string, options: ElectionOptions = {}): LeaderLatch {
    checkOptions(options, ELECTION_RULES);
    const existing = this.candidateOf(election);
    if (existing) return this.existingLatch(existing, options);
    return this.join(
      election,
      new LeaderLatch(this.client, this.pathOf(election, options), {
        ...this.candidateOptions(election, options),
        closeMode: 'notify',
      }),
    );
  }

  /**
   * Joins the election and runs `takeLeadership` each time that this instance is elected. Gives up the
   * leadership when the result of `takeLeadership` has settled, and joins again if `autoRequeue` is set or
   * {@link LeaderSelector.requeue} is called.
   *
   * @throws BadOptionError if this process has joined already; ShuttingDownError
   */
  select(
    election: string,
    takeLeadership: TakeLeadership,
    options: SelectOptions = {},
  ): LeaderSelector {
    checkOptions(options, SELECT_RULES);
    if (this.candidateOf(election)) throw joinedAlready(election);
    const { autoRequeue, onError } = options;
    return this.join(
      election,
      new LeaderSelector(this.client, this.pathOf(election, options), takeLeadership, {
        ...this.candidateOptions(election, options),
        autoRequeue,
        ...(onError && { onError }),
      }),
    );
  }

  /** Returns whether this instance leads now. Joins the election. */
  isLeader(election: string): boolean {
    return this.term(election) !== undefined;
  }

  /** Returns the current term of this instance, or undefined. Joins the election. */
  term(election: string): Term | undefined {
    if (this.refusal) return undefined;
    return (this.candidateOf(election) ?? this.latch(election)).term;
  }

  /** As {@link participants}, but resolves to the first one, the leader; undefined if there is none. */
  async leader(election: string, options?: Pick<ElectionOptions, 'path'>) {
    const [first] = await this.participants(election, options);
    return first;
  }

  /**
   * Resolves to the participants of all processes: the leader, then the others in the order in which
   * they will lead. Does not join the election.
   *
   * @throws RecipeConflictError if another recipe uses the path; ConnectionError, NotAuthorizedError, ShuttingDownError
   */
  async participants(
    election: string,
    options: Pick<ElectionOptions, 'path'> = {},
  ): Promise<LeaderParticipant[]> {
    checkOptions(options, { path: BELOW_ROOT });
    const path = options.path ?? this.candidateOf(election)?.path ?? this.pathOf(election);
    if (this.client.state === 'CONNECTING') await this.client.connect();
    return readCandidates(this.client, path);
  }

  /**
   * Emits whether this instance leads: at once, then at each change, also when its latch is closed with
   * `closeMode: 'silent'`. Completes at the shutdown. The first subscription joins the election.
   */
  changes(election: string): Observable<LeadershipChange> {
    checkKey(election, 'election');
    return new Observable<LeadershipChange>((subscriber) => {
      const now = changeTo(election, this.term(election));
      // Listen before the first value: the subscriber may resign when it receives it.
      subscriber.add(
        this.changed.add((change) => {
          if (change.election === election) subscriber.next(change);
        }),
      );
      subscriber.next(now);
      if (this.refusal) subscriber.complete();
    }).pipe(
      // A subscription during a change reads the new term and is then notified of it.
      distinctUntilChanged((one, other) => one.term === other.term),
      takeUntil(this.shutdown),
    );
  }

  /**
   * Gives up the leadership and queues up again behind all other participants; does nothing if this
   * instance does not lead. `isLeader` is false at once. A running `takeLeadership` is interrupted and
   * keeps its place in the queue until it has settled; then `autoRequeue` decides whether it queues up
   * again. Resolves when the place is given up, or at once if `takeLeadership` itself is the caller.
   */
  async resign(election: string): Promise<void> {
    await this.candidateOf(election)?.resign();
  }

  /** Returns a guard that runs a call within the current term; undefined if this instance does not lead. */
  enter(election: string): TermGuard | undefined {
    const term = this.term(election);
    return term && new TermGuard(term);
  }

  /**
   * Claims a tick of a job for the term of an election; see {@link claimTick}.
   *
   * @internal
   */
  claimTick(term: Term, election: string, job: string, tick: number, runsFirst: boolean) {
    const path = ticksPath(this.client.namespace, election, job);
    return claimTick(this.client, term, path, tick, runsFirst);
  }

  /**
   * Leaves all elections for good. Waits at most `limit` milliseconds until each `takeLeadership` has
   * settled; one that still runs is reported, and keeps its place until the session ends. Idempotent.
   */
  resignAll(limit: number): Promise<void> {
    this.closing ??= this.closeAll(limit);
    return this.closing;
  }

  private async closeAll(limit: number): Promise<void> {
    this.refusal = new ShuttingDownError('the application is shutting down');
    const open = new Set(this.candidates.keys());
    const close = ([election, candidate]: [string, LeaderLatch | LeaderSelector]) =>
      candidate.close().then(() => open.delete(election));
    const closed = Promise.all([...this.candidates].map(close));
    this.shutdown.next();
    await sleep(limit, { until: whenSettled(closed), ref: true });
    for (const election of open) {
      const message = `takeLeadership has not settled within ${Math.round(limit)} ms of the shutdown: the next leader may begin while it runs`;
      this.report?.(election, new Error(message));
    }
  }

  /** Returns the candidate with which this process takes part, if it is not closed. */
  private candidateOf(election: string): LeaderLatch | LeaderSelector | undefined {
    checkKey(election, 'election');
    const candidate = this.candidates.get(election);
    return candidate?.state === 'closed' ? undefined : candidate;
  }

  protected join<C extends LeaderLatch | LeaderSelector>(election: string, candidate: C): C {
    if (this.refusal) {
      const message = `election ${JSON.stringify(election)} is refused: ${this.refusal.message}`;
      throw new ShuttingDownError(message, { key: election, cause: this.refusal });
    }
    this.candidates.set(election, candidate);
    candidate.onChange((term) => {
      if (!term || term.signal.aborted) return;
      // The term's signal, because a latch that is closed silently does not notify its listeners.
      const emitEnd = () => this.changed.emit(changeTo(election, undefined));
      term.signal.addEventListener('abort', emitEnd, { once: true });
      this.changed.emit(changeTo(election, term));
    });
    candidate.start();
    return candidate;
  }

  private existingLatch(
    existing: LeaderLatch | LeaderSelector,
    { id, path, priority }: ElectionOptions,
  ): LeaderLatch {
    if (!(existing instanceof LeaderLatch)) throw joinedAlready(existing.key);
    const election = JSON.stringify(existing.key);
    const options = { id, path, priority };
    for (const option of ['id', 'path', 'priority'] as const) {
      const [value, current] = [options[option], existing[option]];
      if (value === undefined || value === current) continue;
      const currently = current === undefined ? `no ${option}` : `${option} ${current}`;
      const message = `this process already takes part in election ${election} with ${currently}, not ${JSON.stringify(value)}: omit ${option}, or pass the same`;
      throw new BadOptionError(option, value, { message });
    }
    return existing;
  }

  private candidateOptions(key: string, { id, priority }: ElectionOptions): CandidateOptions {
    const { report } = this;
    return {
      key,
      id: id ?? this.elections.get(key)?.id ?? this.participantId,
      priority: priority ?? this.elections.get(key)?.priority,
      onError: report && ((error) => report(key, error)),
    };
  }

  private pathOf(election: string, { path }: ElectionOptions = {}): string {
    return (
      path ?? this.elections.get(election)?.path ?? electionPath(this.client.namespace, election)
    );
  }
}

function changeTo(election: string, term: Term | undefined): LeadershipChange {
  return { election, isLeader: term !== undefined, term };
}

function joinedAlready(election: string): BadOptionError {
  const expected = 'one that this process does not take part in already';
  return new BadOptionError('election', election, expected);
}

/** Guards a call by a term of leadership. */
export class TermGuard {
  constructor(readonly term: Term) {}

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
