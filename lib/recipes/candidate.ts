import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { BadOptionError, ShuttingDownError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { Listeners } from '../client/listeners.js';
import { checkBelowRoot, checkFunction, checkRecord } from '../client/validation.js';
import { wait as pause } from '../client/sleep.js';
import { publishElected, publishTermOver } from './diagnostics.js';
import { runDetached } from './internals/call-chain.js';
import { IllegalStateError } from './errors.js';
import { type LeaderParticipant, readCandidates } from './internals/participants.js';
import { waitInQueue } from './internals/queue.js';
import { lastBefore } from './internals/node-names.js';
import { Ownership } from './internals/ownership.js';
import { LeaseTerm, type Term } from './term.js';

/**
 * What every candidate of an election takes.
 *
 * @publicApi
 */
export interface CandidateOptions {
  /** By which the others know this participant, such as its address. Default: host name and process id. */
  id?: string;
  /** What errors and terms call the election. Default: the path. */
  key?: string;
  /**
   * Told of what keeps it from taking part: what the ensemble refuses, and that the retry policy gave
   * up on the connection. It tries again all the same, each second. Default: a process warning.
   */
  onError?: (error: unknown) => void;
}

export const CANDIDATE_OPTIONS = [
  'id',
  'key',
  'onError',
] as const satisfies (keyof CandidateOptions)[];

/** `'latent'` until it is started. @publicApi */
export type CandidateState = 'latent' | 'started' | 'closed';

/** Milliseconds between a failure to stand for election and the next try. */
const TRY_AGAIN = 1000;

/** Bytes. It travels with each candidacy. */
const LONGEST_ID = 4096;

const THIS_PROCESS = `${hostname()}:${process.pid}`;

/*
 * Leader election, as the ZooKeeper documentation has it: each candidate has an ephemeral sequential
 * node and watches the one before its own; the first in the queue leads.
 */

/**
 * A participant of the election at one znode: what {@link LeaderLatch} and {@link LeaderSelector} have
 * in common.
 *
 * @publicApi
 */
export abstract class Candidate {
  /** By which the others know it. */
  readonly id: string;
  readonly key: string;
  /** What its znodes are called in the queue. */
  protected abstract readonly marker: string;
  /** Another term is wanted after the present one, or a first one. */
  protected wanted = true;
  protected present: LeaseTerm | undefined;
  /** Why it does not take part at the moment, though it is started. */
  protected failure: Error | undefined;
  /** Something happened to it that those who wait for its leadership must look at. */
  protected readonly news = new Listeners<void>();
  protected readonly closing = new AbortController();
  /** Of the latest term; resolves when its place is given back. */
  protected serving: Promise<void> | undefined;
  private changes = new Listeners<Term | undefined>();
  private readonly report: (error: unknown) => void;
  private phase: CandidateState = 'latent';
  /** While it stands for election. */
  private campaign: Promise<void> | undefined;
  /** The latest failure that was reported: it is told once, however often it comes again. */
  private told: string | undefined;

  constructor(
    readonly client: ZkClient,
    readonly path: string,
    options: CandidateOptions = {},
  ) {
    checkBelowRoot(path);
    checkRecord(options);
    const { id = THIS_PROCESS, key = path, onError = warn } = options;
    if (typeof id !== 'string' || Buffer.byteLength(id) > LONGEST_ID) {
      throw new BadOptionError('id', id, `a string of at most ${LONGEST_ID} bytes`);
    }
    if (typeof key !== 'string' || key === '') {
      throw new BadOptionError('key', key, 'a non-empty string');
    }
    checkFunction(onError, 'onError');
    this.id = id;
    this.key = key;
    this.report = onError;
    // Every wait for the leadership listens to it.
    setMaxListeners(0, this.closing.signal);
  }

  get state(): CandidateState {
    return this.phase;
  }

  /** The present term of this participant; undefined while it does not lead. */
  get term(): Term | undefined {
    return this.present?.active ? this.present : undefined;
  }

  get hasLeadership(): boolean {
    return this.term !== undefined;
  }

  /**
   * Begins to take part, in the background.
   *
   * @throws IllegalStateError where it was started or closed before
   */
  start(): void {
    if (this.phase !== 'latent') throw this.illegal(`was ${this.phase} already`);
    this.phase = 'started';
    this.stand();
  }

  /**
   * Called with the term when this participant begins to lead, and with undefined when it does no
   * longer. Returns what removes the listener. Curator's LeaderLatchListener.
   */
  onChange(listener: (term: Term | undefined) => void): () => void {
    checkFunction(listener, 'listener');
    let leads = this.hasLeadership;
    return this.changes.add((term) => {
      // A listener before this one may have ended the term already: then this one hears nothing of it.
      if (!leads && !term?.active) return;
      leads = term !== undefined;
      listener(term);
    });
  }

  /** Who takes part, in the order in which they lead: the first one does. */
  participants(): Promise<LeaderParticipant[]> {
    return readCandidates(this.client, this.path, [this.marker]);
  }

  /** Who leads; undefined where nobody takes part. */
  async leader(): Promise<LeaderParticipant | undefined> {
    const [first] = await this.participants();
    return first;
  }

  /** Gives the leadership up. Nothing where it does not lead. */
  abstract resign(): Promise<void>;

  /** Leaves the election. Idempotent. */
  abstract close(): Promise<void>;

  /** Leads, until it settles: then the leadership is given up. */
  protected abstract lead(term: LeaseTerm): Promise<void>;

  /** Ends the candidacy. Idempotent. @param quietly no listener is told that a leadership ended by it */
  protected async end(quietly: boolean, reason: Error = this.illegal('was closed')): Promise<void> {
    this.phase = 'closed';
    // Forgotten before the term ends, as Curator does.
    if (quietly) this.changes = new Listeners();
    this.closing.abort(reason);
    this.present?.end('given up');
    await this.campaign;
  }

  /** Queues up in the background, unless it is about it. */
  protected stand(): void {
    // It goes on when what the caller holds is over, and must not count as a holder of it.
    this.campaign ??= runDetached(() => this.campaigning());
  }

  protected tell(error: unknown): void {
    try {
      this.report(error);
    } catch (failure) {
      warn(failure);
    }
  }

  protected illegal(what: string): IllegalStateError {
    const election = JSON.stringify(this.key);
    return new IllegalStateError(`this candidate for election ${election} ${what}`, {
      key: this.key,
    });
  }

  /** One term after another, as long as another is wanted. */
  private async campaigning(): Promise<void> {
    while (this.wanted && !this.closing.signal.aborted) {
      try {
        const term = await this.elected();
        await (this.serving = this.serve(term));
      } catch (error) {
        if (this.closing.signal.aborted) break;
        if (error instanceof ShuttingDownError) void this.end(false, error);
        else await this.pauseAfter(error as Error);
      }
    }
    // In one step with the last look at what is wanted: a requeue must not take it for one that goes on.
    this.campaign = undefined;
    // With its client, where no further term was wanted after the one that this ended.
    if (this.client.state === 'CLOSED') void this.end(false);
  }

  private async elected(): Promise<LeaseTerm> {
    const { client, path: parent, marker } = this;
    const position = await waitInQueue(
      client,
      { parent, marker, markers: [marker], data: Buffer.from(this.id), nodeAhead: lastBefore },
      { signal: this.closing.signal, onBlocked: () => (this.told = undefined) },
    );
    return new LeaseTerm(
      new Ownership(client, 'election', parent, position).grant().lease(this.key),
      this.id,
    );
  }

  private async serve(term: LeaseTerm): Promise<void> {
    try {
      // Closed, or lost, since the place was granted: nobody hears of such a term.
      if (this.closing.signal.aborted || !term.active) return;
      this.told = undefined;
      this.present = term;
      // The first of the signal's listeners: nobody else has seen the term yet.
      term.signal.addEventListener('abort', () => {
        publishTermOver(this, term);
        this.changes.emit(undefined);
      });
      publishElected(this, term);
      this.news.emit();
      this.changes.emit(term);
      await this.lead(term);
    } finally {
      this.present = undefined;
      await term.giveBack();
    }
  }

  private async pauseAfter(failure: Error): Promise<void> {
    this.failure = failure;
    this.news.emit();
    if (failure.message !== this.told) this.tell(failure);
    this.told = failure.message;
    const { signal } = this.closing;
    const until = (wake: () => void) => this.client.onState(wake);
    await pause(TRY_AGAIN, { signals: [signal], until }).catch(() => {});
    this.failure = undefined;
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}
