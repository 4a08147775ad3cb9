import { setMaxListeners } from 'node:events';
import { ShuttingDownError } from '../client/errors.js';
import type { Session, ZkClient } from '../client/index.js';
import { Listeners } from '../client/listeners.js';
import { checkBelowRoot, checkFunction } from '../client/validation.js';
import type { CandidateOptions } from './candidate-options.js';
import { follows, publishElected, publishTermOver } from '../kernel/diagnostics.js';
import { runDetached } from '../kernel/call-chain.js';
import { ErrorReporter } from '../kernel/error-reporter.js';
import { IllegalStateError } from '../kernel/errors.js';
import { reportDeadHolder } from '../kernel/dead-holder.js';
import { type LeaderParticipant, readCandidates } from '../kernel/participants.js';
import { THIS_PROCESS } from '../kernel/node-data.js';
import { waitInQueue } from '../kernel/queue.js';
import { lastBefore } from '../kernel/node-names.js';
import { retryPause } from '../kernel/session-loop.js';
import { isOutranked, markerWith, untilOutranked } from '../kernel/priority.js';
import { Ownership } from '../kernel/ownership.js';
import { LeaseTerm, type Term } from '../kernel/term.js';

/**
 * The state of a candidate; `'latent'` until it is started.
 *
 * @publicApi
 */
export type CandidateState = 'latent' | 'started' | 'closed';

/*
 * Leader election as in the ZooKeeper documentation: each candidate has an ephemeral sequential znode and watches the
 * one just ahead. The first one in the queue leads.
 */

/**
 * A participant of the election at one znode. The base of {@link LeaderLatch} and {@link LeaderSelector}.
 *
 * @publicApi
 */
export abstract class Candidate {
  /** The name of this participant for the others. */
  readonly id: string;
  /** The name of the election in errors and terms. */
  readonly key: string;
  /** The priority of this participant, if it has one. */
  readonly priority: number | undefined;
  /** The marker in the names of its znodes. */
  protected abstract readonly marker: string;
  /** Whether it joins the queue again after the current term. */
  protected continues = true;
  protected current: LeaseTerm | undefined;
  /** The last error that prevented joining; undefined while this candidate has joined or tries again. */
  protected failure: Error | undefined;
  /** Emits when a caller that waits for the leadership must check again. */
  protected readonly leadershipWaiters = new Listeners<void>();
  protected readonly closing = new AbortController();
  /** Resolves when the znode of the latest term is deleted. */
  protected termOver: Promise<void> | undefined;
  private listeners = new Listeners<Term | undefined>();
  private readonly reporter: ErrorReporter;
  private phase: CandidateState = 'latent';
  /** Settles when it leaves the election; undefined while it is not in it. */
  private campaign: Promise<void> | undefined;
  /** The znode of the leader that was published last. */
  private followed: string | undefined;

  constructor(
    readonly client: ZkClient,
    /** The parent znode of the election. */
    readonly path: string,
    options: CandidateOptions = {},
  ) {
    checkBelowRoot(path);
    const { id = THIS_PROCESS, key = path, priority, onError } = options;
    this.id = id;
    this.key = key;
    this.priority = priority;
    this.reporter = new ErrorReporter(onError);
    // Every wait for the leadership adds a listener.
    setMaxListeners(0, this.closing.signal);
  }

  /** `'started'` from `start()` until `close()`, also while the connection is lost. */
  get state(): CandidateState {
    return this.phase;
  }

  /** The current term of this participant; undefined while it does not lead. */
  get term(): Term | undefined {
    return this.current?.active ? this.current : undefined;
  }

  /** Whether this participant leads. Reads the clock of the session. */
  get hasLeadership(): boolean {
    return this.term !== undefined;
  }

  /**
   * Joins the election in the background.
   *
   * @throws IllegalStateError if it was started or closed before
   */
  start(): void {
    if (this.phase !== 'latent') throw this.illegal(`was ${this.phase} already`);
    this.phase = 'started';
    this.join();
  }

  /**
   * Adds a listener. It is called with the term when this participant becomes the leader, and with undefined when the
   * leadership ends. Returns a function that removes it. Curator's LeaderLatchListener.
   */
  onChange(listener: (term: Term | undefined) => void): () => void {
    checkFunction(listener, 'listener');
    let leads = this.hasLeadership;
    return this.listeners.add((term) => {
      // An earlier listener may have ended the term already. Then this one is not called.
      if (!leads && !term?.active) return;
      leads = term !== undefined;
      listener(term);
    });
  }

  /** Reads the participants in the order in which they lead. The first one is the leader. */
  participants(): Promise<LeaderParticipant[]> {
    return readCandidates(this.client, this.path, [this.marker]);
  }

  /** Reads the leader; undefined if there is no participant. */
  async leader(): Promise<LeaderParticipant | undefined> {
    const [first] = await this.participants();
    return first;
  }

  /** Gives the leadership up. Does nothing if this participant does not lead. */
  abstract resign(): Promise<void>;

  /** Leaves the election. Idempotent. */
  abstract close(): Promise<void>;

  /** Leads. The leadership is given up when the promise settles. */
  protected abstract lead(term: LeaseTerm): Promise<void>;

  /**
   * Leaves the election. Idempotent.
   *
   * @param silent calls no listener for a leadership that ends by it
   */
  protected async end(silent: boolean, reason: Error = this.illegal('was closed')): Promise<void> {
    this.phase = 'closed';
    // The listeners are removed before the term ends, as Curator does.
    if (silent) this.listeners = new Listeners();
    this.closing.abort(reason);
    this.current?.end('given up');
    await this.campaign;
  }

  private get rank() {
    return { parent: this.path, markers: [this.marker], priority: this.priority };
  }

  /** Joins the election in the background, unless it is in it. */
  protected join(): void {
    // The loop outlives the caller and must not count as a holder of the caller's locks.
    this.campaign ??= runDetached(() => this.runCampaign());
  }

  protected reportError(error: unknown): void {
    this.reporter.report(error);
  }

  protected illegal(what: string): IllegalStateError {
    const election = JSON.stringify(this.key);
    return new IllegalStateError(`this candidate for election ${election} ${what}`, {
      key: this.key,
    });
  }

  /** Serves one term after the other as long as it joins again. */
  private async runCampaign(): Promise<void> {
    while (this.continues && !this.closing.signal.aborted) {
      try {
        await this.whenElected((term) => (this.termOver = this.serve(term)), this.closing.signal);
      } catch (error) {
        // The abort caused the error.
        if (this.closing.signal.aborted) break;
        if (error instanceof ShuttingDownError) void this.end(false, error);
        else await this.pauseAfter(error as Error);
      }
    }
    // Cleared in the tick of the last check of `continues`; otherwise requeue() would take this loop for one that runs.
    this.campaign = undefined;
    // The client was closed during a term after which it does not join again.
    if (this.client.state === 'CLOSED') void this.end(false);
  }

  /** Calls `serve` when this candidate is elected. Resolves when `serve` has settled. */
  protected async whenElected(
    serve: (term: LeaseTerm) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, key, path: parent, rank } = this;
    const marker = markerWith(rank.priority, this.marker);
    const data = Buffer.from(this.id);
    const subject = { noun: 'election', key } as const;
    const isProcess = this.id === THIS_PROCESS;
    for (;;) {
      const position = await waitInQueue({
        client,
        spec: { ...rank, marker, nodeAhead: lastBefore },
        data,
        signal,
        onBlocked: (own) => {
          this.reporter.reset();
          // If it fails, the wait fails as well.
          this.publishFollow(own.path).catch(() => {});
        },
        whyBlocked: (...ahead) =>
          isProcess ? reportDeadHolder(client, subject, ...ahead) : undefined,
      });
      const { session, nodes, children } = position;
      if (!isOutranked(rank, children)) {
        const grant = new Ownership(client, 'election', parent, position).grant();
        const term = new LeaseTerm(grant.lease(this.key), this.id);
        const served = serve(term);
        if (this.priority !== undefined) void this.endWhenOutranked(term, session);
        return served;
      }
      await session.guaranteedDelete(nodes[0]!);
    }
  }

  /** Publishes the leader if it has changed. A candidate that is not just behind the leader may miss a change. */
  private async publishFollow(own: string): Promise<void> {
    if (!follows.hasSubscribers) return;
    const [leader] = await readCandidates(this.client, this.path, [this.marker], 1);
    if (!leader || leader.path === own || leader.path === this.followed || this.current) return;
    this.followed = leader.path;
    follows.publish({ candidate: this, leader });
  }

  private async serve(term: LeaseTerm): Promise<void> {
    try {
      // It was closed, or the session was lost, since the lock was granted. Such a term is not published.
      if (this.closing.signal.aborted || !term.active) return;
      this.reporter.reset();
      this.followed = undefined;
      this.current = term;
      // This is the first listener of the signal, because nobody else has seen the term yet.
      term.signal.addEventListener('abort', () => {
        publishTermOver(this, term);
        this.listeners.emit(undefined);
      });
      publishElected(this, term);
      this.leadershipWaiters.emit();
      this.listeners.emit(term);
      await this.lead(term);
    } finally {
      this.current = undefined;
      await term.release();
    }
  }

  private async endWhenOutranked(term: LeaseTerm, session: Session): Promise<void> {
    const { signal } = term;
    const onError = (error: unknown) => this.reporter.reportOnce(error);
    // It rejects only by the signal.
    await untilOutranked(this.client, session, this.rank, { signal, onError }).catch(() => {});
    if (signal.aborted) return;
    this.continues = true;
    term.end('given up for a candidate with a higher priority');
  }

  private async pauseAfter(failure: Error): Promise<void> {
    this.failure = failure;
    this.leadershipWaiters.emit();
    this.reporter.reportOnce(failure);
    await retryPause(this.client, this.closing.signal);
    this.failure = undefined;
  }
}
