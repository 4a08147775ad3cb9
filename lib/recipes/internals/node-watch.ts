import { ConnectionError, NodeError, type Watch, type ZkClient } from '../../client/index.js';
import type { Place } from './queue.js';
import { readWithin, stateChange } from './session-retry.js';

/** What a node's data becomes when somebody asks its holder to give the lock back; Curator's word. */
export const REVOKE_MESSAGE = Buffer.from('__REVOKE__');

/** Milliseconds: a shorter hold is over before its watch could tell anybody. */
const WATCH_AFTER = 50;

interface NodeWatchEvents {
  /** Somebody deleted the node: the next in the queue has the lock by now. The session alone would not tell. */
  gone(node: string): void;
  revoked(): void;
}

/** Watches the nodes of a held lock for what others do to them. */
export class NodeWatch {
  private readonly timer: NodeJS.Timeout;
  private readonly watches = new Set<Watch>();
  private state: 'waiting' | 'watching' | 'stopped' = 'waiting';

  constructor(
    private readonly client: ZkClient,
    private readonly place: Place,
    private readonly events: NodeWatchEvents,
  ) {
    this.timer = setTimeout(() => this.start(), WATCH_AFTER).unref();
  }

  /** At once, for a holder that listens for a revocation. */
  start(): void {
    if (this.state !== 'waiting') return;
    this.state = 'watching';
    clearTimeout(this.timer);
    for (const node of this.place.nodes) void this.follow(node);
  }

  stop(): void {
    this.state = 'stopped';
    clearTimeout(this.timer);
    for (const watch of this.watches) watch.remove();
  }

  private async follow(node: string): Promise<void> {
    while (this.state === 'watching' && this.place.session.alive) {
      try {
        await this.look(node);
      } catch (error) {
        if (error instanceof NodeError && error.code === 'NO_NODE') {
          if (this.state === 'watching') this.events.gone(node);
          return;
        }
        // The end of the session is told by the session itself.
        if (!(error instanceof ConnectionError)) return;
        await stateChange(this.client);
      }
    }
  }

  /** Resolves when there is reason to look again. The request may be there before the watch is. */
  private async look(node: string): Promise<void> {
    const { session } = this.place;
    const read = () => session.get(node, { watch: true });
    const { data, watch } = await readWithin(this.client, session, read);
    if (this.state !== 'watching') return watch.remove();
    this.watches.add(watch);
    if (data.equals(REVOKE_MESSAGE)) this.events.revoked();
    await watch.fired;
    this.watches.delete(watch);
  }
}
