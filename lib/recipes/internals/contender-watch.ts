import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Session, Watch, ZkClient } from '../../client/index.js';
import { retryRead } from './session-retry.js';

interface ContenderOptions {
  /** The directory of the queue. */
  readonly directory: string;
  /** The children of the directory when the lock was granted. */
  readonly children: readonly string[];
  /** Whether these children include a znode of another process that waits for us. */
  hasContenders(children: readonly string[]): boolean;
  /** Called when a contender may have arrived after it was known that there was none. */
  onArrival(): void;
}

/** The most grants, and the most milliseconds, for which a lock stays in one process while other processes wait. */
const MOST_GRANTS = 512;
const MOST_TIME = 10;

/** Milliseconds for which a lock is handed over before the event loop gets its turn for timers and replies. */
const LONGEST_TURN = 0.5;

/** Limits how long the callers of one process hand a lock over to each other. */
export class HandoverBudget {
  private grants = 0;
  /** When the lock has used its part of the present turn of the event loop. */
  private turnEnds: number | undefined;
  private turn: Promise<void> | undefined;

  /** @param since when the lock was granted, by `performance.now()` */
  constructor(private since: number) {}

  /** Whether other processes that wait must have their turn now. */
  get spent(): boolean {
    return this.grants >= MOST_GRANTS || performance.now() - this.since >= MOST_TIME;
  }

  /** Returns undefined while the lock may be handed over; otherwise resolves in the next turn of the event loop. */
  untilTurn(): Promise<void> | undefined {
    const now = performance.now();
    if (this.turnEnds === undefined) {
      this.turnEnds = now + LONGEST_TURN;
      this.turn = nextTurn().then(() => (this.turnEnds = undefined));
    }
    return now < this.turnEnds ? undefined : this.turn;
  }

  count(): void {
    this.grants++;
  }

  /** Starts again, because no other process waits. */
  restart(): void {
    this.grants = 0;
    this.since = performance.now();
  }
}

/**
 * Observes whether other processes wait behind a znode of this process. While there is none, the lock can be handed over
 * within the process for any time.
 */
export class ContenderWatch {
  state: 'unknown' | 'none' | 'present';
  private listing: Promise<void> | undefined;
  private watch: Watch | undefined;
  private stopped = false;

  constructor(
    private readonly client: ZkClient,
    private readonly session: Session,
    private readonly options: ContenderOptions,
  ) {
    this.state = options.hasContenders(options.children) ? 'present' : 'unknown';
  }

  /** Resolves when the state is known. */
  check(): Promise<void> {
    if (this.state !== 'unknown') return Promise.resolve();
    this.listing ??= this.list();
    return this.listing;
  }

  stop(): void {
    this.stopped = true;
    this.watch?.remove();
  }

  private async list(): Promise<void> {
    try {
      const read = () => this.session.children(this.options.directory, { watch: true });
      const { children, watch } = await retryRead(this.client, this.session, read);
      // Cleared here: a contender may arrive before the promise has settled, and then the queue is listed again.
      this.listing = undefined;
      if (this.stopped || this.options.hasContenders(children)) {
        this.state = 'present';
        return watch.remove();
      }
      this.state = 'none';
      this.watch = watch;
      void watch.fired.then(() => {
        if (this.stopped) return;
        this.state = 'unknown';
        this.options.onArrival();
      });
    } catch {
      // The session has ended, or the directory is gone: the lock cannot be handed over.
      this.state = 'present';
    }
  }
}
