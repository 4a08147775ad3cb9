import {
  abortable,
  BadOptionError,
  checkBelowRoot,
  checkCreateOptions,
  checkOptions,
  ConnectionError,
  type CreateMode,
  FUNCTION,
  isCode,
  Listeners,
  type Rules,
  type Session,
  sleep,
  uncheckedRules,
  type Watch,
  whenSettled,
  type ZkClient,
} from '../../client/index.js';
import {
  BackgroundRecipe,
  CLOSE_TIMEOUT,
  ErrorReporter,
  RecipeConflictError,
  retryRead,
  WaitLimit,
  type WaitOptions,
} from '../../kernel/index.js';
import { copyData } from './internals/nodes.js';
import { RecreatedNode } from './internals/recreated-node.js';
import { TtlChild } from './internals/ttl-child.js';

/*
 * Persistent node (Curator's PersistentNode): a znode that is created again whenever it is gone.
 *
 *   1. Create the znode. If it exists, adopt it, and write the data if it differs.
 *   2. Read it and watch it until it is deleted, or the session ends. Then begin again.
 *
 * The name of a sequential znode begins with a unique id, so that a create whose reply was lost is found again and not
 * repeated. Later creates use the same path, with its number. With a TTL the znode has a child, see ttl-child.ts.
 */

/**
 * The options of a {@link PersistentNode}.
 *
 * @publicApi
 */
export interface PersistentNodeOptions {
  /** The data of the znode. Default: empty. */
  data?: string | Uint8Array | undefined;
  /** The type of the znode. Default `'ephemeral'`. */
  mode?: CreateMode | undefined;
  /**
   * Instead of `mode`: the znode outlives its session and its process. The server deletes it when no process has refreshed
   * it for this number of milliseconds, from 1 to 2,147,483,647; it looks for expired znodes once a minute. `close()`
   * leaves the znode to its TTL. An existing child keeps its TTL, also if another `ttl` is passed. The servers need
   * `zookeeper.extendedTypesEnabled=true`; otherwise `onError` gets a NodeError of the code UNIMPLEMENTED. Default: none.
   * Curator's PersistentTtlNode.
   */
  ttl?: number | undefined;
  /**
   * Called when the znode cannot be created, read or written, which is retried every second. Default: a process warning.
   */
  onError?: ((error: Error) => void) | undefined;
}

const RULES: Rules<PersistentNodeOptions> = {
  ...uncheckedRules('data', 'mode', 'ttl'),
  onError: FUNCTION,
};

/**
 * A znode that this process keeps in ZooKeeper until {@link close}: it is created again after its deletion by another
 * client and after the loss of the session. Its parents are created as containers. An existing znode at the path is
 * adopted. If it is an ephemeral znode of another session, this process creates it again when that session ends. `close()`
 * deletes an adopted znode, with two exceptions: an ephemeral znode of another session, and, if the mode is ephemeral, a
 * persistent znode. Without a connection an ephemeral znode is deleted in the background after the reconnection. `close()`
 * waits up to 2 seconds for the deletion of another znode: then `onError` gets a ConnectionError, and the deletion continues
 * in the background until the retry policy gives up or the client is closed. If the deletion fails, `onError` gets the error.
 *
 * Counterpart of Curator's `PersistentNode`, and with `ttl` of its `PersistentTtlNode`. A sequential one has a unique id in
 * its name, as with Curator's `useProtection`.
 *
 * @publicApi
 */
export class PersistentNode extends BackgroundRecipe {
  private readonly mode: CreateMode;
  private readonly node: RecreatedNode;
  private readonly ttlChild: TtlChild | undefined;
  private readonly changes = new Listeners<string | undefined>();
  private readonly progress = new Listeners<void>();
  private content: Buffer;
  /** What was last written into the znode, if it is known. */
  private written: Buffer | undefined;
  /** The path while the znode exists. */
  private present: string | undefined;
  private wasCreated = false;
  /** Whether the child with the TTL was written since the last create. */
  private hasChild = false;
  private failure: unknown;

  /**
   * @param path a sequential mode adds a prefix and a number to its last part
   * @throws BadOptionError
   */
  constructor(client: ZkClient, path: string, options: PersistentNodeOptions = {}) {
    checkBelowRoot(path);
    const { data = '', mode, ttl, onError } = checkOptions(options, RULES);
    if (ttl !== undefined && mode !== undefined) {
      throw new BadOptionError('mode', mode, 'left out with ttl');
    }
    checkCreateOptions({ mode, ttl });
    super(client, path, new ErrorReporter(onError));
    this.mode = mode ?? (ttl === undefined ? 'ephemeral' : 'container');
    const onTtlError = (error: unknown) => this.reporter.reportOnce(error);
    if (ttl !== undefined) this.ttlChild = new TtlChild(client, path, ttl, onTtlError);
    this.node = new RecreatedNode(client, path, this.mode, this.ttlChild);
    this.content = copyData(path, data);
  }

  /**
   * The path of the znode while it exists, as far as this process knows; undefined before its create, after its deletion,
   * and, if it is ephemeral, from the end of the session on.
   */
  get actualPath(): string | undefined {
    return this.present;
  }

  /** A copy of the data that the znode has, or gets. */
  get data(): Buffer {
    return Buffer.from(this.content);
  }

  override start(): void {
    super.start();
    this.ttlChild?.start(() => this.touch(), this.signal);
  }

  /**
   * Resolves to the path of the znode when it exists with its data for the first time, and with `ttl` also its child.
   *
   * @throws WaitTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   IllegalStateError if it is not started, or is closed meanwhile; ShuttingDownError if the client is closed; and the
   *   error that keeps it from being created, such as NotAuthorizedError
   */
  async waitForInitialCreate(options: WaitOptions = {}): Promise<string> {
    const done = () => {
      if (this.state === 'latent') throw this.illegal('is not started: call start() first');
      if (!this.wasCreated && this.failure) throw this.failure;
      return this.wasCreated;
    };
    const { path: key, progress } = this;
    const description = { noun: 'znode', key, failure: `znode ${key} was not created` } as const;
    await WaitLimit.run(description, options, this.signal, (limit) =>
      limit.waitUntil(done, progress),
    );
    return this.node.path!;
  }

  /**
   * Replaces the data. It is written in the background, also after a loss of the connection.
   *
   * @throws BadOptionError if `data` is no string or Uint8Array, or too long; IllegalStateError after the close
   */
  setData(data: string | Uint8Array): void {
    const copy = copyData(this.path, data);
    if (this.state === 'closed') throw this.illegal('was closed');
    this.content = copy;
    this.progress.emit();
  }

  /**
   * Adds a listener. It is called with the path when the znode was created or adopted, and with undefined when it is
   * gone. Returns a function that removes it.
   */
  onChange(listener: (path: string | undefined) => void): () => void {
    return this.changes.add(listener);
  }

  protected get label(): string {
    return `the persistent node ${this.path}`;
  }

  protected async end(): Promise<void> {
    let isSettled = false;
    const deletion = this.loop
      .close(this.illegal('was closed'))
      .then(() => this.stopListening())
      .then(() => (this.ttlChild ? this.leaveToTtl(this.ttlChild) : this.node.delete()))
      .catch((error: unknown) => this.reporter.report(error))
      .finally(() => (isSettled = true));
    await sleep(CLOSE_TIMEOUT, { until: whenSettled(deletion), ref: true });
    if (!isSettled) {
      const { path: key } = this;
      const message = `the persistent node ${key} was closed, but its last request has no reply after ${CLOSE_TIMEOUT} ms; the request continues in the background until the retry policy gives up or the client is closed`;
      this.reporter.report(new ConnectionError(message, { key }));
    }
    this.announce(undefined);
  }

  /** Deletes a container that may have no child, because the server would never delete it. */
  private async leaveToTtl(child: TtlChild): Promise<void> {
    await child.settled();
    if (this.hasChild) return;
    await this.node.delete().catch((error: unknown) => {
      // The server has a child after all, perhaps that of another process.
      if (!isCode(error, 'NOT_EMPTY')) throw error;
    });
  }

  protected onSessionLost(): void {
    if (this.mode.startsWith('ephemeral')) this.announce(undefined);
  }

  protected async participate(session: Session, signal: AbortSignal): Promise<never> {
    for (;;) {
      const data = this.content;
      this.hasChild = false;
      this.written = (await this.node.create(session, data, signal)) ? data : undefined;
      await this.follow(session, this.node.path!, signal);
      this.announce(undefined);
    }
  }

  /** Resolves when the znode is gone. */
  private async follow(session: Session, path: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      let watch: Watch | undefined;
      try {
        // A read, because the watch of an exists request would remain on a znode that is gone (CURATOR-107).
        const get = () => session.get(path, { watch: true });
        const read = await retryRead(this.client, session, get, signal);
        ({ watch } = read);
        const { content } = this;
        if (this.written !== content && !read.data.equals(content)) {
          const set = () => session.set(path, content);
          await retryRead(this.client, session, set, signal);
          this.written = content;
          continue;
        }
        this.written = content;
        if (this.ttlChild && !this.hasChild) await this.writeChild(this.ttlChild, session, signal);
        this.announce(path);
        this.checkOwner(path, read.stat.ephemeralOwner);
        await this.nextChange(watch, signal);
      } catch (error) {
        if (isCode(error, 'NO_NODE')) return;
        throw error;
      } finally {
        watch?.remove();
      }
    }
  }

  private async writeChild(child: TtlChild, session: Session, signal: AbortSignal): Promise<void> {
    const write = () => child.write().then(() => (this.hasChild = true));
    await retryRead(this.client, session, () => abortable(write(), signal), signal);
  }

  /** Resolves when the watch fires or the data is replaced. */
  private async nextChange(watch: Watch, signal: AbortSignal): Promise<void> {
    if (this.written !== this.content) return;
    let stop: (() => void) | undefined;
    const replaced = new Promise<void>((resolve) => (stop = this.progress.add(resolve)));
    try {
      await abortable(Promise.race([watch.fired, replaced]), signal);
    } finally {
      stop?.();
    }
  }

  private checkOwner(key: string, owner: string): void {
    if ((owner !== '0') === this.mode.startsWith('ephemeral')) return;
    const type = owner === '0' ? 'a persistent' : 'an ephemeral';
    const message = `znode ${key} exists as ${type} znode, but the mode is ${this.mode}: delete the znode, or use another path`;
    this.reporter.reportOnce(new RecipeConflictError(message, { key }));
  }

  private announce(path: string | undefined): void {
    if (path !== undefined) {
      this.wasCreated = true;
      this.failure = undefined;
    }
    if (path === this.present) return;
    this.present = path;
    if (path !== undefined) this.reporter.reset();
    this.progress.emit();
    this.changes.emit(path);
  }

  private touch(): void {
    if (this.present !== undefined && this.state === 'started') this.ttlChild?.touch();
  }

  protected override onFailure(error: unknown): void {
    this.failure = error;
    this.progress.emit();
    super.onFailure(error);
  }
}
