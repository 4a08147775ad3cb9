import { setMaxListeners } from 'node:events';
import {
  BOOLEAN,
  checkOptions,
  checkPath,
  detached,
  FUNCTION,
  Listeners,
  type Rules,
  sleep,
  type StateChange,
  whenSettled,
  type ZkClient,
} from '../../client/index.js';
import {
  CLOSE_TIMEOUT,
  ErrorReporter,
  IllegalStateError,
  WaitLimit,
  type WaitOptions,
} from '../../kernel/index.js';
import { CacheCopy, type CachedNode, type CacheEvent } from './internals/cache-copy.js';
import { CacheReader } from './internals/cache-reader.js';

/*
 * Cache of a znode or a subtree (Curator's CuratorCache):
 *
 *   1. Set a persistent recursive watch on the root. Read the data and the children of the root, and of each child.
 *   2. An event of the watch makes its znode dirty. Each dirty znode is read again.
 *   3. After a reconnection and in a new session, set the watch again, then read each znode again.
 *
 * Without recursive watches (ZooKeeper before 3.6, ClickHouse Keeper, `transport: 'native'`), each read of the data or of the children sets a
 * one-time watch, which makes the znode dirty when it fires. Only a read of a znode changes its copy, and one znode has at most
 * one read at a time. So the events of one znode follow the order of its transactions. If a znode changes several times
 * between two reads, the cache emits one event, with the last state.
 */

/**
 * The options of a {@link ZkCache}.
 *
 * @publicApi
 */
export interface ZkCacheOptions {
  /** Whether the cache has only the znode `path`, and not its descendants. Default false. Curator's SINGLE_NODE_CACHE. */
  singleNode?: boolean | undefined;
  /**
   * Receives the errors of background reads, a repeated error once. The cache keeps its copy of a znode that cannot be
   * read, and tries again after 1 second, or after 30 seconds if its credentials may not read the znode. A znode that was
   * never readable is not in the copy, and neither are the znodes below it. Default: a process warning.
   */
  onError?: ((error: Error) => void) | undefined;
}

const RULES: Rules<ZkCacheOptions> = { singleNode: BOOLEAN, onError: FUNCTION };

/**
 * A local copy of the znode `path` and its descendants, which is kept current. Reads of the copy are synchronous. The
 * copy follows the servers with a delay of about two messages, and does not change while the connection is lost: see
 * {@link ZkCache.staleSince}. Counterpart of Curator's CuratorCache, which replaced NodeCache, PathChildrenCache and
 * TreeCache.
 *
 * @publicApi
 */
export class ZkCache {
  private phase: 'latent' | 'started' | 'closed' = 'latent';
  private stale: number | undefined;
  private complete = false;
  /** The error that keeps the first copy from being complete. */
  private failure: Error | undefined;
  private readonly reporter: ErrorReporter;
  private readonly copy = new CacheCopy();
  private readonly reader: CacheReader;
  /** Emits when the callers of {@link initialized} must check again. */
  private readonly progress = new Listeners<void>();
  private readonly closing = new AbortController();
  private ignoreStates: (() => void) | undefined;
  private stopped: Promise<void> | undefined;

  /** @throws BadOptionError */
  constructor(
    readonly client: ZkClient,
    /** The root of the copy. The znode may be missing. */
    readonly path: string,
    options: ZkCacheOptions = {},
  ) {
    checkPath(path);
    const { singleNode = false, onError } = checkOptions(options, RULES);
    this.reporter = new ErrorReporter(onError);
    const { signal } = this.closing;
    setMaxListeners(0, signal);
    this.reader = new CacheReader(client, path, singleNode, this.copy, signal, {
      settled: () => this.onSettled(),
      failed: (error, znode) => this.onFailure(error, znode === undefined || znode === path),
      ended: (reason) => this.end(reason),
    });
  }

  /** `'started'` from `start()` until `close()`, also while the connection is lost. */
  get state(): 'latent' | 'started' | 'closed' {
    return this.phase;
  }

  /**
   * Since when the copy may lack changes: the `performance.now()` of the start, of the loss of the connection, of a failed
   * read, or of the close. Undefined while the client is connected and each znode was read again since then.
   */
  get staleSince(): number | undefined {
    return this.stale;
  }

  /** Aborts when the cache is closed, also by the end of its client. */
  get signal(): AbortSignal {
    return this.closing.signal;
  }

  /** The number of znodes in the copy. */
  get size(): number {
    return this.copy.size;
  }

  /**
   * Begins to read in the background. Emits a `created` event for each znode that exists.
   *
   * @throws IllegalStateError if it was started or closed before
   */
  start(): void {
    if (this.phase !== 'latent') throw this.illegal(`was ${this.phase} already`);
    this.phase = 'started';
    this.stale = performance.now();
    detached(() => {
      this.ignoreStates = this.client.onState((change) => this.onState(change));
      this.reader.readAll();
    });
  }

  /**
   * Resolves when the first copy is complete. It is empty if the root is missing. Curator's `initialized()`.
   *
   * @throws WaitTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   IllegalStateError if the cache is not started, or is closed meanwhile; and the error that keeps it from reading:
   *   ConnectionError when the retry policy gives up, NotAuthorizedError
   */
  async initialized(options: WaitOptions = {}): Promise<void> {
    const done = () => {
      if (this.phase === 'latent') throw this.illegal('is not started: call start() first');
      if (!this.complete && this.failure) throw this.failure;
      return this.complete;
    };
    const { path: key, progress } = this;
    const failure = `the cache of znode ${key} was not complete`;
    await WaitLimit.run({ noun: 'cache', key, failure }, options, this.signal, (limit) =>
      limit.waitUntil(done, progress),
    );
  }

  /**
   * Returns the copy of a znode, by default of the root; undefined if the znode does not exist.
   *
   * @throws BadOptionError if the path is not absolute
   */
  get(path: string = this.path): CachedNode | undefined {
    return this.copy.get(checkPath(path));
  }

  /**
   * Returns the names of the children of a znode, by default of the root, in no order.
   *
   * @throws BadOptionError if the path is not absolute
   */
  children(path: string = this.path): string[] {
    return this.copy.children(checkPath(path));
  }

  /** Iterates over the copies of all znodes, in no order. Curator's `stream()`. */
  entries(): IterableIterator<CachedNode> {
    return this.copy.entries();
  }

  /** Calls a listener after each change of the copy. Returns a function that removes it. */
  onChange(listener: (event: CacheEvent) => void): () => void {
    return this.copy.changes.add(listener);
  }

  /**
   * Removes all watches. The copy stays readable and does not change any more. Resolves when no read is pending, or
   * after 2 seconds without a reply. With the native transport, which cannot remove watches, a server keeps each watch until
   * it fires or the session ends. Idempotent.
   */
  close(): Promise<void> {
    return this.end(this.illegal('was closed'));
  }

  private end(reason: Error): Promise<void> {
    if (this.stopped) return this.stopped;
    this.phase = 'closed';
    this.stale ??= performance.now();
    this.ignoreStates?.();
    this.closing.abort(reason);
    const stopped = this.reader.stop();
    this.stopped = sleep(CLOSE_TIMEOUT, { until: whenSettled(stopped), ref: true });
    return this.stopped;
  }

  private onState({ state, reason }: StateChange): void {
    if (state === 'CLOSED') {
      void this.end(reason ?? this.illegal('was closed'));
    } else if (state === 'SUSPENDED' || state === 'LOST') {
      this.stale ??= performance.now();
    } else {
      this.failure = undefined;
      this.reporter.reset();
      this.reader.readAll();
    }
  }

  private onSettled(): void {
    if (!this.client.connected) return;
    if (!this.reader.hasFailures) this.reporter.reset();
    if (!this.reader.isStale) {
      this.stale = undefined;
      this.failure = undefined;
      this.complete = true;
    }
    this.progress.emit();
  }

  private onFailure(error: Error, ofAll: boolean): void {
    if (ofAll) this.failure = error;
    if (this.reader.isStale) this.stale ??= performance.now();
    this.progress.emit();
    this.reporter.reportOnce(error);
  }

  private illegal(what: string): IllegalStateError {
    return new IllegalStateError(`the cache of znode ${this.path} ${what}`, { key: this.path });
  }
}
