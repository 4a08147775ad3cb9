import { distinctUntilChanged, Observable, Subject, takeUntil } from 'rxjs';
import { BadOptionError, ShuttingDownError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { Listeners } from '../client/listeners.js';
import { wait } from '../client/sleep.js';
import { runLeading } from '../recipes/internals/call-chain.js';
import {
  type CandidateOptions,
  LeaderLatch,
  type LeaderParticipant,
  LeaderSelector,
  type TakeLeadership,
  type Term,
} from '../recipes/index.js';
import { readCandidates } from '../recipes/internals/participants.js';
import {
  checkElectionOptions,
  checkSelectOptions,
  type ElectionOptions,
  type SelectOptions,
} from './service-options.js';
import type { Holding } from './call-guard.js';
import { checkKnownOptions } from './service-options.js';
import { checkKey, electionPath } from './keys.js';

/**
 * What {@link LeaderService.changes} tells.
 *
 * @publicApi
 */
export interface LeadershipChange {
  readonly election: string;
  /** Whether this instance leads. */
  readonly isLeader: boolean;
  /** While it leads. */
  readonly term: Term | undefined;
}

/**
 * Elections by name, over all processes on the same ensemble and namespace: of those who take part,
 * one leads. This process takes part at most once in each, by the first of {@link latch},
 * {@link select}, {@link isLeader} or {@link changes} that asks for it, the module's `elections`, or a
 * method with `@LeaderOnly`, `@OnElected` or `@OnResigned`. A shutdown resigns.
 *
 * @publicApi
 */
export class LeaderService {
  private readonly candidates = new Map<string, LeaderLatch | LeaderSelector>();
  /** Of all elections: whoever follows one goes on when its candidate was closed, and another joins. */
  private readonly changed = new Listeners<LeadershipChange>();
  private readonly shutdown = new Subject<void>();
  private refusal: ShuttingDownError | undefined;
  private resigned: Promise<void> | undefined;

  /**
   * @param elections how this process takes part in some of them where a call does not say
   * @param participantId as what this process takes part where a call does not say; default: host name
   *   and process id
   * @param report told of what keeps this process from taking part in an election, which it tries again,
   *   and of what a `takeLeadership` throws; default: a process warning
   */
  constructor(
    private readonly client: ZkClient,
    private readonly elections: ReadonlyMap<string, ElectionOptions> = new Map(),
    private readonly participantId?: string,
    private readonly report?: (election: string, error: unknown) => void,
  ) {}

  /**
   * Takes part in the election until the latch is closed; the latch that does so already, where there
   * is one.
   *
   * @throws BadOptionError where this process takes part by other options, or by `select`;
   *   ShuttingDownError
   */
  latch(election: string, options: ElectionOptions = {}): LeaderLatch {
    checkElectionOptions(options);
    const present = this.present(election);
    if (present) return this.sameLatch(present, options);
    return this.join(
      election,
      new LeaderLatch(this.client, this.pathOf(election, options), {
        ...this.optionsOf(election, options),
        closeMode: 'notify',
      }),
    );
  }

  /**
   * Takes part in the election, and runs `takeLeadership` each time that this instance leads. It
   * relinquishes the leadership when that has settled, and queues up again where `autoRequeue` says so
   * or {@link LeaderSelector.requeue} asks for it.
   *
   * @throws BadOptionError where this process takes part already; ShuttingDownError
   */
  select(
    election: string,
    takeLeadership: TakeLeadership,
    options: SelectOptions = {},
  ): LeaderSelector {
    checkSelectOptions(options);
    if (this.present(election)) throw this.twice(election);
    const { autoRequeue, onError } = options;
    return this.join(
      election,
      new LeaderSelector(this.client, this.pathOf(election, options), takeLeadership, {
        ...this.optionsOf(election, options),
        autoRequeue,
        ...(onError && { onError }),
      }),
    );
  }

  /** Whether this instance leads at this very moment. It takes part from the first call on. */
  isLeader(election: string): boolean {
    return this.term(election) !== undefined;
  }

  /** The present term of this instance. It takes part from the first call on. */
  term(election: string): Term | undefined {
    if (this.refusal) return undefined;
    return (this.present(election) ?? this.latch(election)).term;
  }

  /** Who leads, over all processes; undefined where nobody takes part. Needs not take part. */
  async leader(election: string, options?: Pick<ElectionOptions, 'path'>) {
    const [first] = await this.participants(election, options);
    return first;
  }

  /** Who takes part, over all processes, in the order in which they lead. Needs not take part. */
  async participants(
    election: string,
    options: Pick<ElectionOptions, 'path'> = {},
  ): Promise<LeaderParticipant[]> {
    checkKnownOptions('options', options, ['path']);
    const present = this.present(election);
    const path = options.path ?? present?.path ?? this.pathOf(election);
    if (this.client.state === 'CONNECTING') await this.client.connect();
    return readCandidates(this.client, path);
  }

  /**
   * Whether this instance leads: now, and each time that it changes, also by a close of its latch that
   * is silent. Completes at the shutdown. It takes part from the first subscription on.
   */
  changes(election: string): Observable<LeadershipChange> {
    checkKey(election, 'election');
    return new Observable<LeadershipChange>((subscriber) => {
      const now = changeTo(election, this.term(election));
      // Before it hears of that: it may resign when it does.
      subscriber.add(
        this.changed.add((change) => {
          if (change.election === election) subscriber.next(change);
        }),
      );
      subscriber.next(now);
      if (this.refusal) subscriber.complete();
    }).pipe(
      // Whoever subscribes in the middle of a change sees it, and then hears of it.
      distinctUntilChanged((one, other) => one.term === other.term),
      takeUntil(this.shutdown),
    );
  }

  /**
   * Gives the leadership up and queues up again behind all others. A `takeLeadership` that runs is
   * interrupted: it keeps its place until it has settled, and queues up again where `autoRequeue` says
   * so. `isLeader` is false at once; resolves when the place is given up, or at once where
   * `takeLeadership` itself calls it. Nothing where this instance does not lead.
   */
  async resign(election: string): Promise<void> {
    await this.present(election)?.resign();
  }

  /** The present term, to run a call within; undefined where this instance does not lead. */
  enter(election: string): Holding | undefined {
    const term = this.term(election);
    return term && new TermHolding(term);
  }

  /**
   * From now on this process leads nothing and takes part in nothing. Waits until each `takeLeadership`
   * has settled, at most `limit` milliseconds: one that runs on keeps its place until the session ends.
   * Idempotent.
   */
  resignAll(limit: number): Promise<void> {
    this.resigned ??= this.closeAll(limit);
    return this.resigned;
  }

  /** Who takes part for this process; one that was closed does not. */
  private present(election: string): LeaderLatch | LeaderSelector | undefined {
    checkKey(election, 'election');
    const candidate = this.candidates.get(election);
    return candidate?.state === 'closed' ? undefined : candidate;
  }

  private async closeAll(limit: number): Promise<void> {
    this.refusal = new ShuttingDownError('the application is shutting down');
    const closing = Promise.all([...this.candidates.values()].map((one) => one.close()));
    this.shutdown.next();
    const until = (wake: () => void) => {
      void closing.then(wake);
      return () => {};
    };
    await wait(limit, { until, ref: true });
  }

  private join<C extends LeaderLatch | LeaderSelector>(election: string, candidate: C): C {
    if (this.refusal) {
      const message = `election ${JSON.stringify(election)} is refused: ${this.refusal.message}`;
      throw new ShuttingDownError(message, { key: election, cause: this.refusal });
    }
    this.candidates.set(election, candidate);
    candidate.onChange((term) => {
      if (!term || term.signal.aborted) return;
      // By the term, not the latch: that says nothing of its end where it is closed silently.
      const tellEnd = () => this.changed.emit(changeTo(election, undefined));
      term.signal.addEventListener('abort', tellEnd, { once: true });
      this.changed.emit(changeTo(election, term));
    });
    candidate.start();
    return candidate;
  }

  private sameLatch(
    present: LeaderLatch | LeaderSelector,
    { id = present.id, path = present.path }: ElectionOptions,
  ): LeaderLatch {
    if (!(present instanceof LeaderLatch)) throw this.twice(present.key);
    if (id !== present.id) throw new BadOptionError('id', id, `${present.id}, as it is already`);
    if (path !== present.path) {
      throw new BadOptionError('path', path, `${present.path}, as it is already`);
    }
    return present;
  }

  private twice(election: string): BadOptionError {
    const expected = 'one that this process does not take part in already';
    return new BadOptionError('election', election, expected);
  }

  private optionsOf(key: string, { id }: ElectionOptions): CandidateOptions {
    const { report } = this;
    return {
      key,
      id: id ?? this.elections.get(key)?.id ?? this.participantId,
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

/** The leadership, had until the term is over. */
export class TermHolding implements Holding {
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
    // It is the latch's to give up.
  }
}
