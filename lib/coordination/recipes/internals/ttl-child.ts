import { isCode, ShuttingDownError, type ZkClient } from '../../../client/index.js';
import { isLostReply } from '../../../kernel/index.js';

/** The name of the child, and how often it is written within one TTL: Curator's defaults. */
const CHILD = 'touch';
const TOUCHES_PER_TTL = 2;

/**
 * The child with a TTL of a persistent node (Curator's PersistentTtlNode). The process writes it more often than the TTL.
 * After the process has ended, the server deletes it when the TTL is over, and then its parent, which is a container.
 * Writes of the child fire no watch on the parent.
 */
export class TtlChild {
  private readonly path: string;
  private touching: Promise<void> | undefined;

  constructor(
    private readonly client: ZkClient,
    parent: string,
    private readonly ttl: number,
    private readonly onError: (error: unknown) => void,
  ) {
    this.path = `${parent}/${CHILD}`;
  }

  /** Calls `touch` at regular intervals until the signal aborts. */
  start(touch: () => void, signal: AbortSignal): void {
    const timer = setInterval(touch, Math.max(1, this.ttl / TOUCHES_PER_TTL)).unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  touch(): void {
    this.touching ??= this.write()
      .catch((error: unknown) => {
        // The parent is created again, and the next touch repeats one whose reply was lost.
        const isTransient = isCode(error, 'NO_NODE') || isLostReply(error);
        if (!isTransient && !(error instanceof ShuttingDownError)) this.onError(error);
      })
      .finally(() => (this.touching = undefined));
  }

  /** Resolves when no write is under way. */
  async settled(): Promise<void> {
    await this.touching;
  }

  private async write(): Promise<void> {
    try {
      await this.client.set(this.path, '');
    } catch (error) {
      if (!isCode(error, 'NO_NODE')) throw error;
      try {
        await this.client.create(this.path, '', { ttl: this.ttl });
      } catch (failure) {
        // Another process keeps the same znode.
        if (!isCode(failure, 'NODE_EXISTS')) throw failure;
      }
    }
  }
}
