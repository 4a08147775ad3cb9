import { publishConnection } from './diagnostics.js';
import { joinPath } from './connect-string.js';
import { ensureContainers } from './containers.js';
import { DirectoryMaker } from './containers.js';
import { ConnectionError, SessionExpiredError } from './errors.js';
import type { LiveSession } from './live-session.js';
import { elapsed, instant } from './keepalive.js';
import {
  normalizeOptions,
  type ConnectionPolicy,
  type NormalizedOptions,
  type ZkClientOptions,
} from './options.js';
import { SessionKeeper } from './session-manager.js';
import type { Session } from './session.js';
import type { StateChange } from './connection-state.js';
import type { Connect } from './transport/transport.js';
import { chooseTransport, type Chosen, type TransportName } from './transport/choose-transport.js';
import type { Acl, ConnectionState, CreateMode, Stat, Watch } from './types.js';
import { checkOptions, checkPath, checkSignal, checkSize } from './validation.js';
import { wait } from './sleep.js';

/**
 * A ZooKeeper client that keeps one session: it re-attaches it after a lost connection, and makes a new
 * one when it is over. Its own operations are for applications; recipes work on a Session.
 *
 * Reads, and requests that never left, are tried again as the retry policy says. A write whose answer
 * was lost rejects with ConnectionError and `maybeApplied: true`: only its caller knows whether it may
 * be repeated. All operations reject with BadOptionError before anything is sent, ShuttingDownError
 * once the client is closed, NodeError and NotAuthorizedError for the server's refusal.
 *
 * Counterpart of CuratorFramework.
 *
 * @publicApi
 */
export class ZkClient {
  /** Empty, or an absolute path: where the recipes keep their znodes. */
  readonly namespace: string;
  readonly policy: ConnectionPolicy;
  readonly #options: NormalizedOptions;
  readonly #keeper: SessionKeeper;
  readonly #directoryMaker: DirectoryMaker;
  #transport: Chosen | undefined;

  /**
   * @param connect in place of the transports that `options` choose among
   * @throws BadOptionError
   */
  constructor(options: ZkClientOptions, connect?: Connect) {
    this.#options = normalizeOptions(options);
    const { transport, tls } = this.#options;
    if (connect) this.#transport = { name: 'wire', connect };
    this.#keeper = new SessionKeeper(this.#options, async (request) => {
      const chosen = (this.#transport ??= await chooseTransport(transport, tls));
      return chosen.connect(request);
    });
    this.#keeper.machine.listen((change) => publishConnection(this, change));
    const forDirectories: ZkClientOptions = { ...options, transport: 'wire' };
    this.#directoryMaker = new DirectoryMaker(
      () => new ZkClient(forDirectories),
      this.#keeper.stopping,
    );
    this.namespace = this.#options.namespace;
    this.policy = this.#options.policy;
  }

  /** What carries its sessions; undefined until the first attempt to connect. */
  get transport(): TransportName | undefined {
    return this.#transport?.name;
  }

  get state(): ConnectionState {
    return this.#keeper.machine.state;
  }

  /** Of the present session, hexadecimal, connected or suspended; undefined where there is none. */
  get sessionId(): string | undefined {
    return this.#keeper.sessionId;
  }

  /** Whether a connection stands: state CONNECTED or RECONNECTED. */
  get connected(): boolean {
    return this.state === 'CONNECTED' || this.state === 'RECONNECTED';
  }

  /**
   * Resolves with the first session. Where the retry policy gives up, rejects with a ConnectionError that
   * says what each server answered, and may be called again; from the first session on, the client keeps
   * itself connected until it is closed.
   *
   * @throws ConnectionError, NotAuthorizedError, ShuttingDownError
   */
  async connect(): Promise<void> {
    return this.#keeper.start();
  }

  /**
   * Ends the session, so that nobody has to wait for its timeout, and rejects everything pending with
   * ShuttingDownError. Idempotent. Afterwards nothing of the client keeps the process alive. Where no
   * server answers it resolves after at most about 3 seconds, and the session ends with its timeout.
   */
  async close(): Promise<void> {
    return this.#keeper.stop();
  }

  /** Called at every change of state, in its order. Returns what removes the listener. */
  onState(listener: (change: StateChange) => void): () => void {
    return this.#keeper.machine.listen(listener);
  }

  /**
   * The present session, once it is connected: waits as long as the retry policy allows.
   *
   * @throws ConnectionError, WaitCancelledError by the signal, ShuttingDownError
   */
  async session(options?: { signal?: AbortSignal }): Promise<Session> {
    const { signal } = checkOptions(options, ['signal']);
    return this.#keeper.session(checkSignal(signal));
  }

  /** Resolves with the path of the new node, which ends in ten digits for a sequential one. */
  async create(
    path: string,
    data?: string | Uint8Array,
    options?: { mode?: CreateMode },
  ): Promise<string> {
    return this.#write((session) => session.create(path, data, options));
  }

  /**
   * Deletes a node without children.
   *
   * @param version default -1: any
   */
  async delete(path: string, version = -1): Promise<void> {
    return this.#write((session) => session.delete(path, version));
  }

  /** Data and stat of a node. */
  async get(path: string): Promise<{ data: Buffer; stat: Stat }> {
    return this.#read((session) => session.get(path));
  }

  /**
   * Replaces the data of a node that is there.
   *
   * @param version default -1: any
   */
  async set(path: string, data: string | Uint8Array, version = -1): Promise<Stat> {
    return this.#write((session) => session.set(path, data, version));
  }

  /** The stat of a node; undefined where there is none. */
  async exists(path: string): Promise<Stat | undefined> {
    return this.#read((session) => session.exists(path));
  }

  /** Names in no order, and the stat of the parent. */
  async children(path: string): Promise<{ children: string[]; stat: Stat }> {
    return this.#read((session) => session.children(path));
  }

  /** What is read after it is at least as new as what any client wrote before it. */
  async sync(path: string): Promise<void> {
    return this.#read((session) => session.sync(path));
  }

  /**
   * Replaces the access list of a node.
   *
   * @param version the ACL's own version (`Stat.aversion`); default -1: any
   */
  async setAcl(path: string, acl: Acl[], version = -1): Promise<void> {
    return this.#write((session) => session.setAcl(path, acl, version));
  }

  /** Like `get`, with a watch for the next change of its data or its deletion. */
  async watch(path: string): Promise<{ data: Buffer; stat: Stat; watch: Watch }> {
    return this.#read((session) => session.get(path, { watch: true }));
  }

  /** Like `exists`, with a watch for its creation, deletion or the next change of its data. */
  async watchExists(path: string): Promise<{ stat: Stat | undefined; watch: Watch }> {
    return this.#read((session) => session.exists(path, { watch: true }));
  }

  /** Like `children`, with a watch for the next child that comes or goes, or its own deletion. */
  async watchChildren(path: string): Promise<{ children: string[]; stat: Stat; watch: Watch }> {
    return this.#read((session) => session.children(path, { watch: true }));
  }

  /**
   * Makes a directory and those above it, as far as they are missing, as containers: ZooKeeper removes
   * a container some time after its last child. Each one that it makes has the option `acl` from the
   * beginning. The native transport cannot do that: for it a wire session of its own makes them.
   * Counterpart of Curator's ensureContainers.
   */
  async ensureContainers(path: string): Promise<void> {
    const { chroot, acl } = this.#options;
    const full = joinPath(chroot, checkPath(path));
    checkSize(full, undefined);
    if (acl && !(await this.#keeper.session()).createsWithAcl) {
      return this.#directoryMaker.ensureContainers(path);
    }
    return this.#read((session) => ensureContainers(session, full, acl));
  }

  /** What may be repeated whatever became of the last try. */
  #read<T>(operation: (session: LiveSession) => Promise<T>): Promise<T> {
    return this.#retry(operation, () => true);
  }

  #write<T>(operation: (session: LiveSession) => Promise<T>): Promise<T> {
    return this.#retry(operation, (error) => !error.maybeApplied);
  }

  async #retry<T>(
    operation: (session: LiveSession) => Promise<T>,
    again: (error: ConnectionError) => boolean,
  ): Promise<T> {
    const since = instant();
    for (let attempt = 1; ; attempt++) {
      const session = await this.#keeper.session();
      try {
        return await operation(session);
      } catch (error) {
        const failure = asConnectionError(error);
        if (!failure || !again(failure)) throw failure ?? error;
        const delay = this.#options.retry(attempt, elapsed(since));
        if (delay === undefined) throw failure;
        await wait(delay, { signals: [this.#keeper.stopping] });
      }
    }
  }
}

/**
 * A session that ends under a request is, to a user of the client, one more way to lose the answer: the
 * session was alive when the request was made, so it may have been carried out.
 */
function asConnectionError(error: unknown): ConnectionError | undefined {
  if (error instanceof ConnectionError) return error;
  if (!(error instanceof SessionExpiredError)) return undefined;
  return new ConnectionError(`the answer was lost with its session: ${error.message}`, {
    maybeApplied: true,
    cause: error,
  });
}
