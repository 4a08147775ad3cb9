import {
  isCode,
  type NodeError,
  type Session,
  ShuttingDownError,
  type ZkClient,
} from '../../../client/index.js';
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
  private writing: Promise<void> | undefined;

  constructor(
    private readonly client: ZkClient,
    private readonly parent: string,
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

  /**
   * Creates the parent, a container, with its child: the server never deletes a container that had no child. The native
   * transport has no transactions and creates only the parent. Resolves to the path of the parent.
   */
  async createParent(session: Session, data: Buffer): Promise<string> {
    const { parent, path, ttl } = this;
    const container = { create: parent, data, mode: 'container' } as const;
    try {
      const [created] = await session.transaction([container, { create: path, ttl }]);
      return created;
    } catch (error) {
      // With an index, the server has no znodes with a TTL.
      if (!isCode(error, 'UNIMPLEMENTED') || (error as NodeError).index !== undefined) throw error;
      return session.create(parent, data, { mode: 'container' });
    }
  }

  /** Writes the child, and creates it if it does not exist. Calls share a write that is under way. */
  write(): Promise<void> {
    return (this.writing ??= this.writeOnce().finally(() => (this.writing = undefined)));
  }

  /** Writes the child in the background. */
  touch(): void {
    this.write().catch((error: unknown) => {
      // The parent is created again, and the next touch repeats one whose reply was lost.
      const isTransient = isCode(error, 'NO_NODE') || isLostReply(error);
      if (!isTransient && !(error instanceof ShuttingDownError)) this.onError(error);
    });
  }

  /** Resolves when no write is under way. */
  async settled(): Promise<void> {
    await this.writing?.catch(() => {});
  }

  private async writeOnce(): Promise<void> {
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
