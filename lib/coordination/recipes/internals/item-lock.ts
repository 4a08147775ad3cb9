import { randomUUID } from 'node:crypto';
import {
  ConnectionError,
  isCode,
  type Session,
  type Stat,
  type ZkClient,
} from '../../../client/index.js';
import {
  isConnectionLoss,
  isLostReply,
  LeaseLostError,
  NodeWatch,
  retryInSession,
  waitForConnection,
} from '../../../kernel/index.js';

/*
 * The lock of a queue item: an ephemeral znode with the name of the item. Unlike the znodes of other locks, its name is
 * not unique: after the release, another consumer may create it again. So the data is a unique id, and after a lost
 * reply this consumer deletes or claims the znode only if the data is its own id.
 */

/** Milliseconds. Most handlers end before a watch on the lock could report anything. */
const WATCH_AFTER = 50;

/** The paths of an item and of its lock. */
interface ItemPaths {
  readonly lock: string;
  readonly item: string;
}

interface Item {
  readonly data: Buffer;
  readonly stat: Stat;
}

export class ItemLock {
  readonly watchAt = performance.now() + WATCH_AFTER;
  private readonly lost = new AbortController();
  private readonly unsubscribe: () => void;
  private watch: NodeWatch | undefined;
  private released: Promise<void> | undefined;
  private deleted = false;
  /** Whether the reply to the transaction that deletes it was lost. */
  private maybeDeleted = false;

  private constructor(
    private readonly client: ZkClient,
    private readonly session: Session,
    readonly paths: ItemPaths,
    private readonly id: Buffer,
    /** The read of the item that was sent behind the create of the lock. */
    private reading?: Promise<Item>,
  ) {
    this.unsubscribe = session.onUntrusted((reason) => this.lose(reason));
  }

  /**
   * Creates the lock. Resolves to undefined if another consumer has it. After a lost reply it waits for the connection,
   * because the znode may exist.
   *
   * @throws NodeError NO_NODE if the parent does not exist; SessionExpiredError; ConnectionError if nothing was created
   */
  static async acquire(
    client: ZkClient,
    session: Session,
    paths: ItemPaths,
  ): Promise<ItemLock | undefined> {
    const { lock: path } = paths;
    const id = Buffer.from(randomUUID());
    for (let uncertain = false; ;) {
      try {
        const created = session.create(path, id, { mode: 'ephemeral' });
        const reading = session.getAfter(paths.item, path);
        reading.catch(() => {});
        await created;
        return new ItemLock(client, session, paths, id, reading);
      } catch (error) {
        if (isCode(error, 'NODE_EXISTS')) {
          if (!uncertain || !(await hasData(client, session, path, id))) return undefined;
          break;
        }
        if (!(error instanceof ConnectionError)) throw error;
        uncertain ||= error.maybeApplied;
        if (!uncertain) throw error;
        await waitForConnection(client, session);
      }
    }
    return new ItemLock(client, session, paths, id);
  }

  /** Reads the item. Resolves to undefined if it is gone: then another consumer has handled it. */
  readItem(): Promise<Item | undefined> {
    const { client, session, paths } = this;
    return retryInSession(client, session, () => {
      const { reading = session.get(paths.item) } = this;
      this.reading = undefined;
      return reading;
    });
  }

  /** Aborts when the lock is lost. */
  get signal(): AbortSignal {
    return this.lost.signal;
  }

  /** Whether this consumer has the lock. Reads the clock of the session. */
  get held(): boolean {
    return !this.released && this.session.trusted && !this.signal.aborted;
  }

  lose(cause: Error): void {
    if (this.released || this.signal.aborted) return;
    const message = `the lock of the queue item ${this.paths.lock} was lost: ${cause.message}`;
    this.lost.abort(new LeaseLostError(message, { cause }));
  }

  /** Whether the znode exists, although the lease was lost. Waits for the connection. */
  async stillExists(): Promise<boolean> {
    const { client, session, paths, id } = this;
    try {
      return !this.deleted && (await hasData(client, session, paths.lock, id));
    } catch (error) {
      if (session.alive) throw error;
      return false;
    }
  }

  /** Watches for the deletion of the znode by another client. */
  watchNodes(): void {
    if (this.released) return;
    const { client, session, paths, id } = this;
    this.watch = new NodeWatch(
      client,
      { session, nodes: [paths.lock] },
      {
        deleted: () => this.onDeleted(),
        read: (data) => data.equals(id) || this.onDeleted(),
      },
    );
  }

  /**
   * Deletes the item, and the lock in the same transaction if that succeeds. After a lost reply, or if the lease was lost, it
   * first checks that the znode is the item that was read: if the queue was deleted and created again, another item may have
   * its name.
   */
  async deleteItem({ czxid }: Stat): Promise<void> {
    const { client, session, paths } = this;
    this.watch?.stop();
    let checked = this.held;
    await retryInSession(client, session, async () => {
      if (!checked) {
        await session.sync(paths.item);
        if ((await session.exists(paths.item))?.czxid !== czxid) return;
      }
      checked = false;
      try {
        await session.transaction([{ delete: paths.item }, { delete: paths.lock }]);
        this.deleted = true;
      } catch (error) {
        this.maybeDeleted ||= isLostReply(error);
        if (isConnectionLoss(error)) throw error;
        await session.delete(paths.item);
      }
    });
  }

  /** Deletes the lock. Resolves when it is deleted or the session is over. Idempotent. */
  release(): Promise<void> {
    return (this.released ??= this.delete().catch((error: unknown) => {
      // The znode ends with the session.
      if (this.session.alive) throw error;
    }));
  }

  private async delete(): Promise<void> {
    this.unsubscribe();
    this.watch?.stop();
    // The first delete does not read the data. Only a client that breaks the protocol deletes the lock of a living session,
    // and the watch reports that to the handlers that take longer than WATCH_AFTER.
    let exists = !this.deleted && (!this.maybeDeleted || (await this.stillExists()));
    while (exists) {
      try {
        return await this.session.delete(this.paths.lock);
      } catch (error) {
        if (isCode(error, 'NO_NODE')) return;
        if (!(error instanceof ConnectionError)) throw error;
        await waitForConnection(this.client, this.session);
        if (error.maybeApplied) {
          exists = await hasData(this.client, this.session, this.paths.lock, this.id);
        }
      }
    }
  }

  private onDeleted(): void {
    if (this.released) return;
    this.deleted = true;
    this.watch?.stop();
    this.lose(new Error('a client deleted its znode'));
  }
}

/** Whether a znode has some data, read behind all earlier writes. False if there is no znode. */
async function hasData(
  client: ZkClient,
  session: Session,
  path: string,
  expected: Buffer,
): Promise<boolean> {
  const read = async () => {
    await session.sync(path);
    return (await session.get(path)).data.equals(expected);
  };
  return (await retryInSession(client, session, read)) ?? false;
}
