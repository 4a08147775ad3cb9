import { isCode, type Session, type Watch } from '../../../client/index.js';

/** Upper bound of the random choice: contending consumers take one of the first 16 items. */
const MAX_CHOICE = 16;

/** The queue that is listed. */
export interface ListedQueue {
  readonly path: string;
  readonly lockPath: string;
  /** Whether a later put can come before earlier items. */
  readonly prioritized: boolean;
  /** Returns the items among the children of the queue. */
  itemsIn(children: readonly string[]): string[];
  ensurePaths(): Promise<void>;
}

/** What a consumer remembers of an item while the item is in the queue. */
interface ItemMemory {
  /** The last known number of failed attempts of all consumers. */
  failedAttempts?: number;
  /** The number of times that this consumer could not finish the item because of a request or of the data. */
  errors: number;
  /** The zxid of the data that was reported as unreadable. */
  unreadable?: number;
  /** Whether the lock was reported because it is persistent. */
  lockReported?: boolean;
}

/** Finds the items of a queue that no consumer handles, and watches for new ones. */
export class FreeItems {
  /** The items of the last listing without a lock that were not taken, in order. */
  private free: string[] = [];
  /** The items that other consumers had locked. */
  private locked = new Set<string>();
  private readonly memories = new Map<string, ItemMemory>();
  /** Whether the queue may have changed since the last listing. */
  private changed = true;
  /** Whether another consumer took an item of the last listing. */
  private contended = false;
  private choiceSize = 1;
  private watches: Watch[] = [];
  private wake: () => void = () => {};
  private closed = false;

  /**
   * @param isTaken whether this consumer handles an item already
   * @param onPersistentLock called once for an item whose lock is persistent, so that no session ends it
   */
  constructor(
    private readonly queue: ListedQueue,
    private readonly isTaken: (name: string) => boolean,
    private readonly onPersistentLock: (name: string) => void,
  ) {}

  /**
   * Takes an item: the first one, or one of the first few if other consumers were faster recently. Resolves to undefined
   * after a change, if no item is free.
   */
  async take(session: Session): Promise<string | undefined> {
    const isOld = this.free.length === 0 || this.contended || this.queue.prioritized;
    if (this.changed && isOld) await this.list(session);
    const among = Math.min(Math.ceil(this.choiceSize), this.free.length);
    const [name] = this.free.splice(Math.floor(Math.random() * among), 1);
    if (name === undefined && !this.changed) await this.watchLocks(session);
    return name;
  }

  /** Another consumer was faster. */
  onContended(name: string): void {
    this.locked.add(name);
    this.contended = true;
    this.choiceSize = Math.min(this.choiceSize * 2, MAX_CHOICE);
  }

  /** This consumer was the first. */
  onAcquired(): void {
    this.choiceSize = Math.max(1, this.choiceSize - 0.25);
  }

  /** Returns what the consumer remembers of an item. It is forgotten when the item is no longer listed. */
  memory(name: string): ItemMemory {
    const memory = this.memories.get(name) ?? { errors: 0 };
    this.memories.set(name, memory);
    return memory;
  }

  /** The queue, or the state of the consumer, may have changed. */
  notify(): void {
    this.changed = true;
    this.wake();
  }

  /** Resolves at the next {@link notify}. */
  change(): Promise<void> {
    return new Promise((resolve) => (this.wake = resolve));
  }

  close(): void {
    this.closed = true;
    this.unwatch();
    this.notify();
  }

  private unwatch(): void {
    for (const watch of this.watches) watch.remove();
    this.watches = [];
  }

  private async list(session: Session): Promise<void> {
    const { path, lockPath } = this.queue;
    this.unwatch();
    this.changed = this.contended = false;
    try {
      const listing = session.children(lockPath);
      // The read of the items may reject first. A later rejection of this promise must not be unhandled.
      listing.catch(() => {});
      const { children, watch } = await session.children(path, { watch: true });
      this.follow(watch);
      const items = this.queue.itemsIn(children);
      const locks = new Set((await listing).children);
      // A name of a deleted item can occur again if the queue is deleted and created again.
      const listed = new Set(items);
      for (const name of this.memories.keys()) if (!listed.has(name)) this.memories.delete(name);
      const others = items.filter((name) => !this.isTaken(name));
      this.locked = new Set(others.filter((name) => locks.has(name)));
      this.free = others.filter((name) => !locks.has(name)).sort();
    } catch (error) {
      this.changed = true;
      if (!isCode(error, 'NO_NODE')) throw error;
      await this.queue.ensurePaths();
    }
  }

  /** Resolves after a change, or when the lock of another consumer is gone. */
  private async watchLocks(session: Session): Promise<void> {
    const names = [...this.locked];
    this.locked.clear();
    await Promise.all(
      names.map(async (name) => {
        const lock = `${this.queue.lockPath}/${name}`;
        const { stat, watch } = await session.exists(lock, { watch: true });
        this.follow(watch);
        if (!stat) this.notify();
        if (stat?.ephemeralOwner !== '0' || this.memory(name).lockReported) return;
        this.memory(name).lockReported = true;
        this.onPersistentLock(name);
      }),
    );
    if (!this.changed) await this.change();
  }

  private follow(watch: Watch): void {
    if (this.closed) return watch.remove();
    this.watches.push(watch);
    void watch.fired.then(() => this.notify());
  }
}
