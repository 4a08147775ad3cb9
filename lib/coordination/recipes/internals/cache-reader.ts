import { ConnectionError, SessionExpiredError, ShuttingDownError } from '../../../client/errors.js';
import type { Session, Watch, ZkClient } from '../../../client/index.js';
import { sleep } from '../../../client/sleep.js';
import type { CacheCopy } from './cache-copy.js';
import { isNodeError } from './nodes.js';

/** The number of znodes that are read at the same time. */
const MAX_READS = 128;
/** Milliseconds between a failure and the next attempt. */
const RETRY_AFTER = 1000;

/** The parts of a znode to read. */
const DATA = 1;
const CHILDREN = 2;

interface ReaderObserver {
  /** No znode is left to read, and none is being read. */
  settled(): void;
  /** @param path the znode that cannot be read; undefined if there is no connection */
  failed(error: Error, path: string | undefined): void;
  /** The client was closed. */
  ended(reason: ShuttingDownError): void;
}

/**
 * Reads the znodes of a {@link ZkCache} into its copy. A znode that is marked is read once more, at most once at a time,
 * and its read sets the watches that mark it again.
 */
export class CacheReader {
  private readonly watches = { data: new Map<string, Watch>(), children: new Map<string, Watch>() };
  /** The znodes to read, in this order, and the parts. */
  private readonly marked = new Map<string, number>();
  /** The znodes being read, and the parts that were marked since. */
  private readonly reading = new Map<string, number>();
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
  ) {}

  /** Reads the root again, and all below it that is not in the copy. */
  readRoot(): void {
    this.mark(this.root, DATA | CHILDREN);
  }

  /** Removes all watches. To be called after the signal has aborted. Resolves when no read is pending. */
  stop(): Promise<void> {
    this.marked.clear();
    for (const byPath of Object.values(this.watches)) {
      for (const watch of byPath.values()) watch.remove();
      byPath.clear();
    }
    return new Promise((resolve) => {
      this.onIdle = resolve;
      this.checkIdle();
    });
  }

  private mark(path: string, parts: number): void {
    if (this.closing.aborted) return;
    const map = this.reading.has(path) ? this.reading : this.marked;
    map.set(path, (map.get(path) ?? 0) | parts);
    this.readMarked();
  }

  private readMarked(): void {
    const { session, marked, reading } = this;
    if (!session) {
      if (marked.size > 0 && !this.connecting) void this.connect();
      return;
    }
    for (const [path, parts] of marked) {
      if (reading.size >= MAX_READS) return;
      marked.delete(path);
      reading.set(path, 0);
      void this.read(session, path, parts);
    }
  }

  /** Finds the session to read in. */
  private async connect(): Promise<void> {
    this.connecting = true;
    while (!this.closing.aborted) {
      try {
        this.session = await this.client.session({ signal: this.closing });
        break;
      } catch (error) {
        if (this.closing.aborted) break;
        if (error instanceof ShuttingDownError) this.observer.ended(error);
        else await this.pauseAfter(error as Error);
      }
    }
    this.connecting = false;
    this.readMarked();
    this.checkIdle();
  }

  private async pauseAfter(failure: Error): Promise<void> {
    this.observer.failed(failure, undefined);
    const until = (wake: () => void) => this.client.onState(wake);
    // It rejects only by the signal, which the caller checks.
    await sleep(RETRY_AFTER, { signals: [this.closing], until }).catch(() => {});
  }

  private async read(session: Session, path: string, parts: number): Promise<void> {
    try {
      const created = (parts & DATA) > 0 && (await this.readData(session, path));
      if (created || (parts & CHILDREN && this.copy.get(path))) {
        await this.readChildren(session, path);
      }
    } catch (error) {
      if (this.closing.aborted) {
        // Nobody needs the result.
      } else if (error instanceof ConnectionError || error instanceof SessionExpiredError) {
        this.reading.set(path, DATA | CHILDREN);
        if (this.session === session) this.session = undefined;
      } else {
        this.copy.delete(path);
        this.observer.failed(error as Error, path);
      }
    }
    const again = this.reading.get(path)!;
    this.reading.delete(path);
    if (again) this.mark(path, again);
    else this.readMarked();
    this.checkIdle();
  }

  private checkIdle(): void {
    if (this.reading.size > 0 || this.connecting) return;
    if (this.closing.aborted) this.onIdle?.();
    else if (this.marked.size === 0) this.observer.settled();
  }

  /** Resolves to whether the znode is not the one that was read before. Its children must be read then. */
  private async readData(session: Session, path: string): Promise<boolean> {
    try {
      const { data, stat, watch } = await session.get(path, { watch: true });
      return this.follow('data', path, watch) && this.copy.put({ path, data, stat });
    } catch (error) {
      if (!isNodeError(error, 'NO_NODE')) throw error;
    }
    if (this.closing.aborted) return false;
    this.copy.delete(path);
    // The watch on the children of the parent reports the creation of all others.
    if (path !== this.root) return false;
    const { stat, watch } = await session.exists(path, { watch: true });
    this.follow('data', path, watch);
    if (stat) this.mark(path, DATA);
    return false;
  }

  private async readChildren(session: Session, path: string): Promise<void> {
    if (this.singleNode) return;
    try {
      const { children, watch } = await session.children(path, { watch: true });
      if (!this.follow('children', path, watch)) return;
      const parent = path === '/' ? path : `${path}/`;
      for (const name of children) {
        if (!this.copy.get(parent + name)) this.mark(parent + name, DATA);
      }
    } catch (error) {
      // The watch of the data has fired.
      if (!isNodeError(error, 'NO_NODE')) throw error;
    }
  }

  /** Marks the znode when the watch fires. Returns false after the reading has ended. */
  private follow(kind: 'data' | 'children', path: string, watch: Watch): boolean {
    if (this.closing.aborted) {
      watch.remove();
      return false;
    }
    const watches = this.watches[kind];
    watches.get(path)?.remove();
    watches.set(path, watch);
    void watch.fired.then((event) => {
      if (watches.get(path) !== watch) return;
      watches.delete(path);
      // The read of the data finds out whether the znode exists again.
      if (kind === 'data') this.mark(path, DATA);
      else if (event !== 'deleted') this.mark(path, CHILDREN);
    });
    return true;
  }
}
