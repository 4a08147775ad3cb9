import {
  BadOptionError,
  checkCreateOptions,
  checkOptions,
  isCode,
  type Rules,
  ShuttingDownError,
  uncheckedRules,
  type ZkClient,
} from '../../client/index.js';
import { isLostReply } from './internals/nodes.js';
import { PersistentNode, type PersistentNodeOptions } from './persistent-node.js';

/*
 * Persistent TTL node (Curator's PersistentTtlNode): a container that has a child with a TTL. The process writes the child
 * more often than the TTL. After the process has ended, the server deletes the child when the TTL is over, and then the
 * container. The writes of the child fire no watch on the container.
 */

/**
 * The options of a {@link PersistentTtlNode}.
 *
 * @publicApi
 */
export interface PersistentTtlNodeOptions extends Omit<PersistentNodeOptions, 'mode'> {
  /**
   * Milliseconds for which the znode exists after the end of the process, a whole number from 1 to 2,147,483,647. The
   * server looks for expired znodes once a minute.
   */
  ttl: number;
}

const RULES: Rules<PersistentTtlNodeOptions> = uncheckedRules('data', 'onError', 'ttl');

/** The name of the child, and how often it is written within one TTL: Curator's defaults. */
const CHILD = 'touch';
const TOUCHES_PER_TTL = 2;

/**
 * A znode that outlives its session and its process: the server deletes it when no process has refreshed it for `ttl`
 * milliseconds. `close()` leaves the znode to its TTL. The servers need
 * `zookeeper.extendedTypesEnabled=true`; otherwise `onError` gets a NodeError of the code UNIMPLEMENTED.
 *
 * Counterpart of Curator's `PersistentTtlNode`, with its znodes.
 *
 * @publicApi
 */
export class PersistentTtlNode extends PersistentNode {
  private readonly ttl: number;
  private readonly child: string;
  private touching: Promise<void> | undefined;

  /** @throws BadOptionError */
  constructor(client: ZkClient, path: string, options: PersistentTtlNodeOptions) {
    const { ttl, ...rest } = checkOptions(options, RULES);
    super(client, path, { ...rest, mode: 'container' });
    if (ttl === undefined) throw new BadOptionError('ttl', ttl, 'a number of milliseconds');
    checkCreateOptions({ ttl });
    this.ttl = ttl;
    this.child = `${path}/${CHILD}`;
  }

  override start(): void {
    super.start();
    // At once, because the server does not delete a container that never had a child.
    this.onChange((path) => path !== undefined && this.touch());
    const interval = Math.max(1, this.ttl / TOUCHES_PER_TTL);
    const timer = setInterval(() => this.touch(), interval).unref();
    this.signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  protected override async deleteNode(): Promise<void> {
    await this.touching;
  }

  private touch(): void {
    if (this.actualPath === undefined || this.state !== 'started') return;
    this.touching ??= this.writeChild()
      .catch((error: unknown) => {
        // The parent is created again, and the next touch repeats one whose reply was lost.
        const isTransient = isCode(error, 'NO_NODE') || isLostReply(error);
        const isClosing = error instanceof ShuttingDownError;
        if (!isTransient && !isClosing) this.reporter.reportOnce(error);
      })
      .finally(() => (this.touching = undefined));
  }

  private async writeChild(): Promise<void> {
    try {
      await this.client.set(this.child, '');
    } catch (error) {
      if (!isCode(error, 'NO_NODE')) throw error;
      try {
        await this.client.create(this.child, '', { ttl: this.ttl });
      } catch (failure) {
        // Another process keeps the same znode.
        if (!isCode(failure, 'NODE_EXISTS')) throw failure;
      }
    }
  }
}
