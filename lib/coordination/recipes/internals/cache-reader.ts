import {
  BadOptionError,
  isCode,
  NotAuthorizedError,
  parentOf,
  type PersistentWatch,
  type Session,
  ShuttingDownError,
  sleep,
  type Watch,
  type WatchNotification,
  type ZkClient,
} from '../../../client/index.js';
import type { CacheCopy, CachedNode } from './cache-copy.js';
import { MAX_READS } from './read-each.js';
import {
  isConnectionLoss,
  RETRY_AFTER,
  RETRY_REFUSED_AFTER,
  retryPause,
} from '../../../kernel/index.js';

/** The parts of a znode to read. */
const DATA = 1;
const CHILDREN = 2;

/** A failed read of a znode. */
interface Failure {
  readonly makesStale: boolean;
}

interface ReaderObserver {
  /** No znode is left to read, and none is being read. */
  settled(): void;
  /** @param path the znode that cannot be read; undefined if there is no connection */
  failed(error: Error, path: string | undefined): void;
  /** The client was closed. */
  ended(reason: ShuttingDownError): void;
}

/**
 * Reads the znodes of a {@link ZkCache} into its copy. Each dirty znode is read again, at most once at a time. A recursive
 * watch on the root makes the znodes dirty that change. Without one, each read sets the watches that make its znode dirty
 * again.
 */
export class CacheReader {
  /** Whether a recursive watch is used; false for one znode, and where the server or the transport has none. */
  private recursive: boolean;
  private rootWatch: PersistentWatch | undefined;
  private readonly watches = { data: new Map<string, Watch>(), children: new Map<string, Watch>() };
  /** The dirty znodes: those to read, in this order, and the parts. */
  private readonly dirty = new Map<string, number>();
  /** The znodes being read, and the parts that became dirty since. */
  private readonly reading = new Map<string, number>();
  /** The znodes whose last read failed, and whether the server refused it. */
  private readonly failing = new Map<string, Failure>();
  /** The number of those that make the copy stale. */
  private staleFailures = 0;
  /** The session to read in; undefined while it is not known. */
  private session: Session | undefined;
  private connecting = false;
  private onIdle: (() => void) | undefined;

  constructor(
    private readonly client: ZkClient,
    private readonly root: string,
    private readonly singleNode: boolean,
    private readonly copy: CacheCopy,
    /** Ends the reading. */
    private readonly closing: AbortSignal,
    private readonly observer: ReaderObserver,
  ) {
    this.recursive = !singleNode;
  }

  /** Reads everything. To be called at the start and after each new connection. */
  readAll(): void {
    // The recursive watch must be set again before the first read.
    this.session = undefined;
    this.invalidate(this.root, DATA | CHILDREN);
    for (const { path } of this.copy.entries()) this.invalidate(path, DATA | CHILDREN);
  }

  /** Whether the last read of a znode failed. */
  get hasFailures(): boolean {
    return this.failing.size > 0;
  }

  /**
   * Whether the copy may lack changes because of failed reads. A znode below the root that the server refused to read from
   * the start does not count: the copy leaves it out.
   */
  get isStale(): boolean {
    return this.staleFailures > 0;
  }

  /** Removes all watches. To be called after the signal has aborted. Resolves when no read is pending. */
  stop(): Promise<void> {
    this.dirty.clear();
    this.rootWatch?.remove();
    for (const byPath of Object.values(this.watches)) {
      for (const watch of byPath.values()) watch.remove();
      byPath.clear();
    }
    return new Promise((resolve) => {
      this.onIdle = resolve;
      this.checkIdle();
    });
  }

  private invalidate(path: string, parts: number): void {
    if (this.closing.aborted) return;
    const map = this.reading.has(path) ? this.reading : this.dirty;
    map.set(path, (map.get(path) ?? 0) | parts);
    this.readDirty();
  }

  private readDirty(): void {
    const { session, dirty, reading } = this;
    if (!session) {
      if (dirty.size > 0 && !this.connecting) void this.connect();
      return;
    }
    for (const [path, parts] of dirty) {
      if (reading.size >= MAX_READS) return;
      dirty.delete(path);
      reading.set(path, 0);
      void this.read(session, path, parts);
    }
  }

  /** Finds the session to read in, and sets the recursive watch. */
  private async connect(): Promise<void> {
    this.connecting = true;
    while (!this.session && !this.closing.aborted) {
      try {
        const session = await this.client.session({ signal: this.closing });
        if (await this.watchRoot(session)) this.session = session;
      } catch (error) {
        if (this.closing.aborted) break;
        if (error instanceof ShuttingDownError) this.observer.ended(error);
        else await this.pauseAfter(error as Error);
      }
    }
    this.connecting = false;
    this.readDirty();
    this.checkIdle();
  }

  /** Resolves to false if the connection broke. */
  private async watchRoot(session: Session): Promise<boolean> {
    if (!this.recursive) return true;
    this.rootWatch?.remove();
    const onEvent = ({ event, path }: WatchNotification) => {
      // After a new connection everything is read.
      if (event !== 'session') this.invalidate(path, DATA);
    };
    try {
      this.rootWatch = await session.addWatch(this.root, onEvent, { recursive: true });
      if (this.closing.aborted) this.rootWatch.remove();
    } catch (error) {
      if (isConnectionLoss(error)) return false;
      // The session has another persistent watch on the root, which is not recursive.
      const isTaken = error instanceof BadOptionError;
      if (!isTaken && !isCode(error, 'UNIMPLEMENTED')) throw error;
      this.recursive = false;
    }
    return true;
  }

  private async pauseAfter(failure: Error): Promise<void> {
    this.observer.failed(failure, undefined);
    await retryPause(this.client, this.closing);
  }

  private async read(session: Session, path: string, parts: number): Promise<void> {
    try {
      await this.readParts(session, path, parts);
      this.setFailure(path, undefined);
    } catch (error) {
      if (this.closing.aborted) {
        // Nobody needs the result.
      } else if (isConnectionLoss(error)) {
        this.reading.set(path, DATA | CHILDREN);
        if (this.session === session) this.session = undefined;
      } else {
        this.onFailure(error as Error, path);
      }
    }
    const again = this.reading.get(path)!;
    this.reading.delete(path);
    if (again) this.invalidate(path, again);
    else this.readDirty();
    this.checkIdle();
  }

  /** Keeps the copy of the znode, and invalidates it again after a pause. */
  private onFailure(error: Error, path: string): void {
    const isRefused = error instanceof NotAuthorizedError;
    const isLeftOut = path !== this.root && this.copy.get(path) === undefined;
    const failure = { makesStale: !(isRefused && isLeftOut) };
    this.setFailure(path, failure);
    this.observer.failed(error, path);
    const pause = isRefused ? RETRY_REFUSED_AFTER : RETRY_AFTER;
    const retry = () => {
      if (this.failing.get(path) === failure) this.invalidate(path, DATA | CHILDREN);
    };
    // It rejects only by the signal, after which nothing is read.
    void sleep(pause, { signals: [this.closing] }).then(retry, () => {});
  }

  private setFailure(path: string, failure: Failure | undefined): void {
    if (this.failing.get(path)?.makesStale) this.staleFailures--;
    if (failure?.makesStale) this.staleFailures++;
    if (failure) this.failing.set(path, failure);
    else this.failing.delete(path);
  }

  private checkIdle(): void {
    if (this.reading.size > 0 || this.connecting) return;
    if (this.closing.aborted) this.onIdle?.();
    else if (this.dirty.size === 0) this.observer.settled();
  }

  private async readParts(session: Session, path: string, parts: number): Promise<void> {
    let wantsChildren = (parts & CHILDREN) > 0 && this.copy.get(path) !== undefined;
    if (parts & DATA) {
      const node = await this.readData(session, path);
      if (this.closing.aborted) return;
      if (!node || !this.isReachable(path)) return this.copy.delete(path);
      const isNew = this.copy.put(node);
      wantsChildren ||= isNew;
      // The recursive watch reports the creation of the first child.
      if (this.recursive && node.stat.numChildren === 0) return;
    }
    if (wantsChildren && !this.singleNode) await this.readChildren(session, path);
  }

  /**
   * Whether the copy has the parent of the znode. It lacks a parent that the server refused to read, with all znodes below
   * it. When the parent is added to the copy, its children are read.
   */
  private isReachable(path: string): boolean {
    return path === this.root || this.copy.get(parentOf(path)) !== undefined;
  }

  /** Resolves to undefined if the znode does not exist. */
  private async readData(session: Session, path: string): Promise<CachedNode | undefined> {
    try {
      if (this.recursive) return { path, ...(await session.get(path)) };
      const { data, stat, watch } = await session.get(path, { watch: true });
      this.follow('data', path, watch);
      return { path, data, stat };
    } catch (error) {
      if (!isCode(error, 'NO_NODE')) throw error;
    }
    // The watch on the children of the parent reports the creation of all others.
    if (this.recursive || path !== this.root) return undefined;
    const { stat, watch } = await session.exists(path, { watch: true });
    this.follow('data', path, watch);
    if (stat) this.invalidate(path, DATA);
    return undefined;
  }

  private async readChildren(session: Session, path: string): Promise<void> {
    try {
      const children = await this.list(session, path);
      const parent = path === '/' ? path : `${path}/`;
      for (const name of children) {
        if (!this.copy.get(parent + name)) this.invalidate(parent + name, DATA);
      }
    } catch (error) {
      // The deletion of the znode has invalidated it.
      if (!isCode(error, 'NO_NODE')) throw error;
    }
  }

  private async list(session: Session, path: string): Promise<string[]> {
    if (this.recursive) return (await session.children(path)).children;
    const { children, watch } = await session.children(path, { watch: true });
    this.follow('children', path, watch);
    return children;
  }

  /** Invalidates the znode when the watch fires. */
  private follow(kind: 'data' | 'children', path: string, watch: Watch): void {
    if (this.closing.aborted) return watch.remove();
    const watches = this.watches[kind];
    watches.get(path)?.remove();
    watches.set(path, watch);
    void watch.fired.then((event) => {
      if (watches.get(path) !== watch) return;
      watches.delete(path);
      // The read of the data finds out whether the znode exists again.
      if (kind === 'data') this.invalidate(path, DATA);
      else if (event !== 'deleted') this.invalidate(path, CHILDREN);
    });
  }
}
