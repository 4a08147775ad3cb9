import { setTimeout as delay } from 'node:timers/promises';
import { Faults, sessionOf } from './faults.js';
import {
  connectStringOf,
  type EmbeddedZooKeeperOptions,
  integer,
  parseSessionId,
  resolveOptions,
  type ServerOptions,
} from './options.js';
import { ServerThread } from './server-thread.js';
import type { SavedStore } from './store.js';

/** Milliseconds: a client of a stopped server may occupy its port briefly, as the local port of a connection. */
const PORT_LIMIT = 2_000;
const PORT_RETRY_DELAY = 25;

/**
 * A ZooKeeper server in a worker thread of this process, for development and tests: real sockets,
 * real sessions, nothing on disk. In production run an ensemble.
 *
 * The worker thread is unref'd: it does not keep the process alive. A program that only runs the server must keep its
 * event loop alive itself.
 *
 * ```ts
 * await using zookeeper = await EmbeddedZooKeeper.start();
 * connect(zookeeper.connectString);
 * ```
 *
 * @publicApi
 */
export class EmbeddedZooKeeper implements AsyncDisposable {
  /** Injects faults between this server and its clients. */
  readonly faults = new Faults(() => this.#running());
  #thread: ServerThread | undefined;
  #saved: SavedStore | undefined;
  /** Starts and stops run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly options: ServerOptions,
    thread: ServerThread,
  ) {
    this.#thread = thread;
  }

  /** Resolves when clients can connect. Rejects with a TypeError or RangeError for a wrong option, or with EADDRINUSE. */
  static async start(options: EmbeddedZooKeeperOptions = {}): Promise<EmbeddedZooKeeper> {
    const resolved = resolveOptions(options);
    const thread = await ServerThread.start({ options: resolved, saved: undefined });
    return new EmbeddedZooKeeper({ ...resolved, port: thread.port }, thread);
  }

  /** The port, the same before and after a restart. */
  get port(): number {
    return this.options.port;
  }

  /** The connect string for clients on this machine. */
  get connectString(): string {
    return connectStringOf(this.options);
  }

  /** Closes every connection and ends the thread. Keeps the tree and the sessions for `restart()`. Idempotent. */
  stop(): Promise<void> {
    return this.#inTurn(() => this.#stop());
  }

  /**
   * Stops the server if it runs, and starts it on the same port with the same tree and sessions. The timeouts
   * of the sessions start again. Clients must set their watches again.
   */
  restart(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#stop();
      this.#thread = await this.#startAgain();
      this.#saved = undefined;
    });
  }

  /**
   * Expires a session: deletes its ephemeral nodes, which fires watches, and closes its connection.
   *
   * @throws TypeError if `id` is not hexadecimal; Error if there is no such session, or the server is stopped
   */
  async expireSession(id: string): Promise<void> {
    await this.#running().call('expireSession', parseSessionId(id));
  }

  /** Closes every connection, or that of one session. The clients can reconnect to their sessions. */
  async dropConnections(session?: string): Promise<void> {
    await this.#running().call('dropConnections', sessionOf({ session }));
  }

  /**
   * Advances the server's clock by `ms` milliseconds. Sessions with a shorter timeout expire, even if they are
   * connected. Expired TTL nodes and empty containers are removed, whatever `containerCheckInterval` is.
   *
   * @throws TypeError or RangeError unless `ms` is a whole number of 0 or more; Error if the server is stopped
   */
  async skipClock(ms: number): Promise<void> {
    integer('skipClock', ms, 0, Number.MAX_SAFE_INTEGER);
    await this.#running().call('skipClock', ms);
  }

  /** As {@link stop}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #running(): ServerThread {
    if (!this.#thread)
      throw new Error('the embedded ZooKeeper is not running: it was stopped; call restart()');
    return this.#thread;
  }

  async #stop(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    // A thread that died has lost its data: there is nothing to stop or to keep.
    this.#saved = thread ? await thread.stop().catch(() => undefined) : this.#saved;
  }

  async #startAgain(): Promise<ServerThread> {
    const input = { options: this.options, saved: this.#saved };
    const deadline = performance.now() + PORT_LIMIT;
    for (;;) {
      try {
        return await ServerThread.start(input);
      } catch (error) {
        const isInUse = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
        if (!isInUse || performance.now() > deadline) throw error;
        await delay(PORT_RETRY_DELAY);
      }
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    // The caller gets the failure.
    this.#turn = result.catch(() => {});
    return result;
  }
}
