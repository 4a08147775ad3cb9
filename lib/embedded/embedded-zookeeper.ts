import { setTimeout as delay } from 'node:timers/promises';
import { Faults } from './faults.js';
import {
  type EmbeddedZooKeeperOptions,
  integer,
  resolveOptions,
  type ServerOptions,
} from './options.js';
import { ServerThread } from './server-thread.js';
import { parseSessionId } from './session-id.js';
import type { SavedStore } from './store.js';

/** Clients of a stopped server may take its port for a moment, as the near end of a connection to nobody. */
const PORT_PATIENCE = 2_000;
const PORT_RETRY_DELAY = 25;

/**
 * A ZooKeeper server in a worker thread of this process, for development and tests: real sockets,
 * real sessions, nothing on disk. In production run an ensemble.
 *
 * It does not keep the process alive: one that forgot to stop it still exits, and a program that
 * does nothing but serve others needs a handle of its own.
 *
 * ```ts
 * await using zookeeper = await EmbeddedZooKeeper.start();
 * connect(zookeeper.connectString);
 * ```
 *
 * @publicApi
 */
export class EmbeddedZooKeeper implements AsyncDisposable {
  /** What can be made to go wrong between this server and its clients. */
  readonly faults = new Faults(() => this.#running());
  #thread: ServerThread | undefined;
  #saved: SavedStore | undefined;
  /** Starts and stops run one after the other, however they are called. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly options: ServerOptions,
    thread: ServerThread,
  ) {
    this.#thread = thread;
  }

  /** Resolves once clients can connect; rejects if the options are wrong or the port is taken. */
  static async start(options: EmbeddedZooKeeperOptions = {}): Promise<EmbeddedZooKeeper> {
    const resolved = resolveOptions(options);
    const thread = await ServerThread.start({ options: resolved, saved: undefined });
    return new EmbeddedZooKeeper({ ...resolved, port: thread.port }, thread);
  }

  /** The same before and after a restart. */
  get port(): number {
    return this.options.port;
  }

  /** What a client on this machine connects to. */
  get connectString(): string {
    const { host, port } = this.options;
    if (host === '0.0.0.0' || host === '::') return `127.0.0.1:${port}`;
    return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  }

  /** Closes every connection and ends the thread; the tree and the sessions are kept for `restart()`. Idempotent. */
  stop(): Promise<void> {
    return this.#inTurn(() => this.#stop());
  }

  /**
   * Stops, unless it is stopped already, and starts again on the same port with the same tree and
   * sessions. Their timeouts start anew; watches are the clients' to set again.
   */
  restart(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#stop();
      this.#thread = await this.#startAgain();
      this.#saved = undefined;
    });
  }

  /** Ends a session as its timeout would: ephemeral nodes go, watches on them fire, its connection closes. */
  async expireSession(id: string): Promise<void> {
    const known = await this.#running().expireSession(parseSessionId(id));
    if (!known) throw new Error(`the embedded ZooKeeper has no session ${id}`);
  }

  /** Closes every connection, or that of one session alone; the clients may come back to their sessions. */
  async dropConnections(session?: string): Promise<void> {
    if (session === undefined) return this.#running().dropConnections();
    if (!(await this.#running().dropConnection(parseSessionId(session)))) {
      throw new Error(`the embedded ZooKeeper has no connection of session ${session}`);
    }
  }

  /**
   * Lets the server's clock leap ahead by so many milliseconds: sessions whose timeout that exceeds
   * expire, connected or not, TTL nodes that outlived their time and emptied containers are reaped.
   */
  async skipClock(ms: number): Promise<void> {
    integer('skipClock', ms, 0, Number.MAX_SAFE_INTEGER);
    await this.#running().skipClock(ms);
  }

  /** As {@link stop}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #running(): ServerThread {
    if (!this.#thread) throw new Error('the embedded ZooKeeper is not running: it was stopped');
    return this.#thread;
  }

  async #stop(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    // A thread that died took its data along: there is nothing left to stop or to keep.
    this.#saved = thread ? await thread.stop().catch(() => undefined) : this.#saved;
  }

  async #startAgain(): Promise<ServerThread> {
    const input = { options: this.options, saved: this.#saved };
    const giveUpAt = performance.now() + PORT_PATIENCE;
    for (;;) {
      try {
        return await ServerThread.start(input);
      } catch (error) {
        const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
        if (!isTaken || performance.now() > giveUpAt) throw error;
        await delay(PORT_RETRY_DELAY);
      }
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }
}
