import { foreignText, isCode } from '../client/errors.js';
import { ConnectionError, type Watch, type ZkClient } from '../client/index.js';
import type { QueuePosition } from './queue-position.js';
import { retryRead, stateChange } from './session-retry.js';

interface NodeWatchEvents {
  /** Another process deleted the znode. The session does not report that, and the next waiter holds the lock by now. */
  deleted(node: string): void;
  /** The data was read: at first, and after each change. */
  read(data: Buffer): void;
}

/** Watches the znodes of a held lock, or of a member, for changes by other processes. */
export class NodeWatch {
  private readonly watches = new Set<Watch>();
  private stopped = false;

  constructor(
    private readonly client: ZkClient,
    private readonly position: Pick<QueuePosition, 'session' | 'nodes'>,
    private readonly events: NodeWatchEvents,
  ) {
    for (const node of position.nodes) void this.follow(node);
  }

  /** Whether each znode existed at its last read, and has not changed since. */
  get isSet(): boolean {
    return this.watches.size === this.position.nodes.length;
  }

  stop(): void {
    this.stopped = true;
    for (const watch of this.watches) watch.remove();
  }

  private async follow(node: string): Promise<void> {
    while (!this.stopped && this.position.session.alive) {
      try {
        await this.changeOf(node);
      } catch (error) {
        if (isCode(error, 'NO_NODE')) {
          if (!this.stopped) this.events.deleted(node);
          return;
        }
        if (!(error instanceof ConnectionError)) {
          // The session itself reports its end.
          if (!this.position.session.alive) return;
          const message = `${foreignText(node)} cannot be watched, so a deletion or a request for revocation goes unnoticed: ${String(error)}`;
          return process.emitWarning(message, { code: 'ZK_WATCH_FAILED' });
        }
        await stateChange(this.client);
      }
    }
  }

  /** Resolves when the znode may have changed. */
  private async changeOf(node: string): Promise<void> {
    const { session } = this.position;
    const read = () => session.get(node, { watch: true });
    const { data, watch } = await retryRead(this.client, session, read);
    if (this.stopped) return watch.remove();
    this.watches.add(watch);
    this.events.read(data);
    await watch.fired;
    this.watches.delete(watch);
  }
}
