import type { Session, Watch, ZkClient } from '../client/index.js';
import { retryRead } from './session-retry.js';

interface ContenderOptions {
  /** The parent of the znodes of the queue. */
  readonly queueParent: string;
  /** Its children when the lock was granted. */
  readonly children: readonly string[];
  /** Whether these children include a znode of another process that waits for us. */
  hasContenders(children: readonly string[]): boolean;
  /** Called when a contender may have arrived after it was known that there was none. */
  onArrival(): void;
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
      const read = () => this.session.children(this.options.queueParent, { watch: true });
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
      // The session has ended, or the parent is gone: the lock cannot be handed over.
      this.state = 'present';
    }
  }
}
