import {
  ConnectionError,
  ifExists,
  isCode,
  SessionExpiredError,
  sleep,
  whenSettled,
  type ZkClient,
} from '../../../client/index.js';
import {
  CLOSE_TIMEOUT,
  isLostReply,
  RecipeConflictError,
  SequenceExhaustedError,
  WaitLimit,
  type WaitOptions,
} from '../../../kernel/index.js';
import { QueueFullError } from '../errors.js';
import { decodeItems } from './queue-items.js';

/** The queue of a put. */
interface PutQueue {
  readonly client: ZkClient;
  readonly path: string;
  readonly maxItems: number;
  /** Returns the items among the children of the queue. */
  itemsIn(children: readonly string[]): string[];
  ensurePaths(): Promise<void>;
}

/** The number of items whose data a producer reads at once to find out whether a put was applied. */
const READ_AT_ONCE = 64;

/** A put of one znode. It waits for space and for the connection, and then creates the znode. */
export class QueuePut {
  private isFull = false;
  /** Whether the create was sent, and no reply shows that it was not applied. */
  private maybePut = false;

  /**
   * @param prefix the name of the znode without its sequence number
   * @param id the id of the put in `data`
   */
  constructor(
    private readonly queue: PutQueue,
    private readonly prefix: string,
    private readonly data: Buffer,
    private readonly id: Buffer,
  ) {}

  /**
   * Resolves to the name of the znode.
   *
   * @param closing ends the put as the other limits do
   */
  async run(options: WaitOptions, closing: AbortSignal): Promise<string> {
    const { path: key, maxItems } = this.queue;
    const timedOut = (wait: number) => this.timedOut(wait);
    const failure = `no server replied to a put into the queue ${key}`;
    const description = { noun: 'queue', key, failure, timedOut } as const;
    return WaitLimit.run(description, options, closing, async (limit) => {
      try {
        if (maxItems !== Infinity) await this.waitForSpace(limit);
        return await this.create(limit, closing);
      } catch (error) {
        if (!this.maybePut || error !== limit.signal.reason) throw error;
        const message = `a put into the queue ${key} was sent, and its wait ended before the reply: put the item again only if handling it twice is safe`;
        throw new ConnectionError(message, { key, maybeApplied: true, cause: error });
      }
    });
  }

  private async waitForSpace(limit: WaitLimit): Promise<void> {
    const { client, path, maxItems } = this.queue;
    const stat = await limit.reply(client.exists(path));
    if (!stat || stat.numChildren < maxItems) return;
    for (;;) {
      const listing = await ifExists(limit.watched(client.watchChildren(path)));
      // A queue that was deleted has space.
      if (!listing) return;
      this.isFull = this.queue.itemsIn(listing.children).length >= maxItems;
      if (!this.isFull) return listing.watch.remove();
      await limit.waitFor(listing.watch);
    }
  }

  /**
   * Creates the znode. The name of an item has no room for a unique id, because Curator requires a prefix and sorts by the
   * rest. The id is in the data instead. After a lost reply the put was applied if an item has the id. If none has it, the
   * put was not applied, or a consumer has handled the item already, and the caller must decide.
   */
  private async create(limit: WaitLimit, closing: AbortSignal): Promise<string> {
    const { client, path } = this.queue;
    for (;;) {
      const session = await limit.session(client);
      try {
        this.maybePut = true;
        const mode = 'persistent-sequential';
        const request = session.create(`${path}/${this.prefix}`, this.data, { mode });
        const created = await limit.reply(request).catch(async (error: unknown) => {
          if (error !== closing.reason) throw error;
          await sleep(CLOSE_TIMEOUT, { until: whenSettled(request), ref: true });
          return Promise.race([request, Promise.reject(error)]);
        });
        return created.slice(path.length + 1);
      } catch (error) {
        if (error === limit.signal.reason) throw error;
        if (isLostReply(error) || error instanceof SessionExpiredError) {
          return await limit.reply(this.find(error));
        }
        this.maybePut = false;
        if (isCode(error, 'NO_NODE')) {
          await limit.reply(this.queue.ensurePaths());
        } else if (isCode(error, 'NODE_EXISTS')) {
          throw new SequenceExhaustedError(
            `the sequence numbers under ${path} are used up: delete it while it is empty and nobody uses it, or use another path`,
            { key: path },
          );
        } else if (!(error instanceof ConnectionError)) {
          throw error;
        }
      }
    }
  }

  /** Finds the item with the id. Rejects if there is none. */
  private async find(cause: Error): Promise<string> {
    const { client, path: key } = this.queue;
    try {
      await client.sync(key);
      const { children } = await client.children(key);
      // The item is probably one of the last.
      const names = this.queue.itemsIn(children).sort().toReversed();
      while (names.length > 0) {
        const some = names.splice(0, READ_AT_ONCE);
        const found = await Promise.all(some.map((name) => this.hasId(name)));
        if (found.includes(true)) return some[found.indexOf(true)]!;
      }
    } catch (error) {
      throw new ConnectionError(
        `the reply to a put into the queue ${key} was lost, and the search for the item failed: put the item again only if handling it twice is safe`,
        { key, maybeApplied: true, cause: error },
      );
    }
    throw new ConnectionError(
      `the reply to a put was lost, and the item is not in the queue ${key}: it was not put, or a consumer has handled it already; put it again only if handling it twice is safe`,
      { key, maybeApplied: true, cause },
    );
  }

  private async hasId(name: string): Promise<boolean> {
    const path = `${this.queue.path}/${name}`;
    try {
      const { data } = await this.queue.client.get(path);
      return decodeItems(data, path).id.equals(this.id);
    } catch (error) {
      // It is gone, or it is no item.
      if (isCode(error, 'NO_NODE') || error instanceof RecipeConflictError) return false;
      throw error;
    }
  }

  private timedOut(wait: number): QueueFullError | undefined {
    if (!this.isFull) return undefined;
    const { path: key, maxItems } = this.queue;
    const message = `queue ${key} is full (maxItems ${maxItems}) after ${wait} ms: add consumers, or pass a longer wait`;
    return new QueueFullError(message, { key });
  }
}
