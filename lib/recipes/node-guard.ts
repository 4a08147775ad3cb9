import { ConnectionError, NodeError, type Watch, type ZkClient } from '../client/index.js';
import type { Place } from './queue.js';
import { readWithin, stateChange } from './within-session.js';

/** Milliseconds: a shorter hold is over before its watch could tell anybody. */
const GUARD_AFTER = 50;

/**
 * Watches the node of a held lock. The session alone does not tell a holder that an operator deleted
 * its node by hand, and that the next in the queue has the lock by now.
 */
export class NodeGuard {
  private readonly timer: NodeJS.Timeout;
  private watch: Watch | undefined;
  private stopped = false;

  constructor(
    private readonly client: ZkClient,
    private readonly place: Place,
    private readonly onGone: () => void,
  ) {
    this.timer = setTimeout(() => void this.run(), GUARD_AFTER).unref();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.watch?.remove();
  }

  private async run(): Promise<void> {
    while (!this.stopped && this.place.session.alive) {
      try {
        const gone = await this.nextEvent();
        if (gone && !this.stopped) this.onGone();
        if (gone) return;
      } catch (error) {
        // The end of the session is told by the session itself.
        if (!(error instanceof ConnectionError)) return;
        await stateChange(this.client);
      }
    }
  }

  /** True once the node is gone, false where there is reason to look again. */
  private async nextEvent(): Promise<boolean> {
    const { session, path } = this.place;
    try {
      const { watch } = await readWithin(this.client, session, () =>
        session.get(path, { watch: true }),
      );
      this.watch = watch;
      if (this.stopped) watch.remove();
      return !this.stopped && (await watch.fired) === 'deleted';
    } catch (error) {
      if (error instanceof NodeError && error.code === 'NO_NODE') return true;
      throw error;
    }
  }
}
