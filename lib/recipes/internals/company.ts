import type { Session, Watch, ZkClient } from '../../client/index.js';
import { readWithin } from './session-retry.js';

interface CompanyEvents {
  /** It is known already that there is somebody. */
  readonly others: boolean;
  /** Whether these children of the parent include somebody who waits for us. */
  isOther(children: readonly string[]): boolean;
  /** Somebody may have come, after it was known that nobody was there. */
  onArrival(): void;
}

/**
 * Whether anybody else stands in the queue behind a node of ours. As long as nobody does, handing the
 * lock on within the process makes nobody wait.
 */
export class Company {
  private state: 'unknown' | 'alone' | 'others';
  private looking: Promise<void> | undefined;
  private watch: Watch | undefined;
  private over = false;

  constructor(
    private readonly client: ZkClient,
    private readonly session: Session,
    private readonly parent: string,
    private readonly about: CompanyEvents,
  ) {
    this.state = about.others ? 'others' : 'unknown';
  }

  get alone(): boolean {
    return this.state === 'alone';
  }

  get others(): boolean {
    return this.state === 'others';
  }

  /** Resolves when it is known, or cannot be. What is known is known until somebody comes. */
  look(): Promise<void> {
    if (this.state !== 'unknown') return Promise.resolve();
    this.looking ??= this.ask();
    return this.looking;
  }

  leave(): void {
    this.over = true;
    this.watch?.remove();
  }

  private async ask(): Promise<void> {
    try {
      const list = () => this.session.children(this.parent, { watch: true });
      const { children, watch } = await readWithin(this.client, this.session, list);
      // Here, not when this has settled: somebody may have come already, and then it is looked again.
      this.looking = undefined;
      if (this.over || this.about.isOther(children)) {
        this.state = 'others';
        return watch.remove();
      }
      this.state = 'alone';
      this.watch = watch;
      void this.untilArrival(watch);
    } catch {
      // The session is over, or the directory gone: the place is not to be handed on.
      this.state = 'others';
    }
  }

  private async untilArrival(watch: Watch): Promise<void> {
    await watch.fired;
    if (this.over) return;
    this.state = 'unknown';
    this.about.onArrival();
  }
}
