import './single-copy.js';
import { ErrorCode } from '../protocol/codes.js';
import { deleteUnusedContainers, ensureContainers } from './containers.js';
import type { ConnectFailure, ServerKind } from './connector.js';
import {
  CONNECT_FAILED_CHANNEL,
  CONNECTION_CHANNEL,
  DELETE_REFUSED_CHANNEL,
  typedChannel,
} from './diagnostics.js';
import { type NormalizedOptions, normalizeOptions, type ZkClientOptions } from './options.js';
import { SessionManager, type StateChange } from './session-manager.js';
import type { Session } from './session.js';
import type { TransactionOperation, TransactionResults } from './transaction.js';
import { isSimulated } from './process-state.js';
import type { Connect } from './transport/transport.js';
import { openTls } from './transport/tls.js';
import { connectWire } from './transport/wire-transport.js';
import type {
  Acl,
  ConnectionState,
  CreateOptions,
  PersistentWatch,
  Stat,
  Watch,
  WatchNotification,
} from './types.js';
import { ABORT_SIGNAL, BOOLEAN, checkOptions, checkRequest, parentOf } from './validation.js';

/**
 * A message on the channel `nestjs-zookeeper:connection`: the state of a client of this process has changed.
 *
 * @publicApi
 */
export interface ConnectionMessage extends StateChange {
  readonly client: ZkClient;
}

export const connections = typedChannel<ConnectionMessage>(CONNECTION_CHANNEL);

export function publishConnection(client: ZkClient, change: StateChange): void {
  if (connections.hasSubscribers) connections.publish({ client, ...change });
}

/**
 * A message on the channel `nestjs-zookeeper:delete-refused`: a server refused to delete a znode of a recipe, for
 * example of a lock that was released. The znode exists until the session of the client ends.
 *
 * @publicApi
 */
export interface DeleteRefusedMessage {
  readonly client: ZkClient;
  /** The node, with the chroot of the connect string. */
  readonly path: string;
  /** Whether it is the client's first refusal in this directory. The client remembers 1,000 directories. */
  readonly first: boolean;
  /** What happened, and what to change. */
  readonly message: string;
  /** A subscriber that logs a first refusal sets it to true. Otherwise it becomes a process warning. */
  logged: boolean;
}

const refusedDeletes = typedChannel<DeleteRefusedMessage>(DELETE_REFUSED_CHANNEL);

/** How many directories a client remembers, so that a service with a directory for each order does not use up memory. */
const MAX_DIRECTORIES = 1000;

/** Reports the deletes of one client that servers refused. */
export class RefusedDeletes {
  readonly #directories = new Set<string>();

  constructor(private readonly client: ZkClient) {}

  report(path: string, code: number): void {
    const directory = parentOf(path);
    const first = !this.#directories.has(directory);
    this.#directories.add(directory);
    if (this.#directories.size > MAX_DIRECTORIES) {
      const [oldest] = this.#directories;
      this.#directories.delete(oldest);
    }
    const text = this.#refusal(path, code);
    const message = { client: this.client, path, first, message: text, logged: false };
    refusedDeletes.publish(message);
    if (first && !message.logged) process.emitWarning(text, { code: 'ZK_DELETE_REFUSED' });
  }

  #refusal(path: string, code: number): string {
    const directory = parentOf(path);
    const cause =
      code === ErrorCode.noAuth
        ? `the ACL of ${directory} denies it (${code}). Grant the permission 'd' (delete) on ${directory} to this client`
        : `result code ${code}`;
    return `the server refused to delete ${path}: ${cause}. Until the session ends, this node blocks its lock or election`;
  }
}

/** A message: an attempt of a client to connect failed. */
export type ConnectFailedMessage = { readonly client: ZkClient } & ConnectFailure;
export const failedConnects = typedChannel<ConnectFailedMessage>(CONNECT_FAILED_CHANNEL);

/** The name of a method that returns the client itself, also if it is called on a Proxy, as tracers put around providers. */
const ITSELF = Symbol('itself');

/** Returns the current session of a client, if it is connected. For recipes, which may not wait for a promise here. */
export let connectedSession: (client: ZkClient) => Session | undefined;

/** As {@link ZkClient.connect}, but tries until the client is closed, and does not wait. For `lazyConnection`. */
export let connectInBackground: (client: ZkClient) => void;

/** Runs a write in the current session, and again if it was not sent, as the retry policy allows. For recipes. */
export let runWrite: <T>(client: ZkClient, write: Write<T>) => Promise<T>;
type Write<T> = (session: Session) => Promise<T>;

/** As {@link ZkClient.ensureContainers}. Adds the containers that it has created, or may have, to `created`. For recipes. */
export let createContainers: (
  client: ZkClient,
  path: string,
  created: Set<string>,
) => Promise<void>;

/** Deletes containers of {@link createContainers} in which nothing will be created. For recipes. */
export let deleteContainers: (client: ZkClient, created: ReadonlySet<string>) => Promise<void>;

/**
 * A ZooKeeper client with one session. It reconnects the session after a connection loss, and starts a new
 * session when the old one is over. Its operations are for applications; recipes use a Session.
 *
 * Reads, and requests that were not sent, are retried according to the retry policy. A write whose
 * reply was lost rejects with a ConnectionError with `maybeApplied: true`: only the caller knows whether it
 * may be repeated. All operations reject with BadOptionError before anything is sent, with
 * ShuttingDownError once the client is closed, and with NodeError or NotAuthorizedError if the server refuses.
 * Counterpart of Curator's CuratorFramework.
 *
 * @publicApi
 */
export class ZkClient {
  /** The parent of the recipes' znodes: empty, or an absolute path. */
  readonly namespace: string;
  readonly policy: 'session' | 'standard';
  /** The transport of its connections. */
  readonly transport: 'wire' | 'native';
  readonly #options: NormalizedOptions;
  readonly #sessions: SessionManager;

  static {
    connectedSession = (client) => {
      const { current } = client[ITSELF]().#sessions;
      return current?.connected ? current : undefined;
    };
    connectInBackground = (client) => client[ITSELF]().#sessions.startInBackground();
    runWrite = (client, write) => client[ITSELF]().#write(write);
    createContainers = (client, path, created) =>
      client[ITSELF]().#ensure(path, 'container', created);
    deleteContainers = (client, created) =>
      client[ITSELF]().#read((session) => deleteUnusedContainers(session, created));
  }

  /**
   * @param connect replaces the transport that the options select
   * @throws BadOptionError
   */
  constructor(options: ZkClientOptions, connect?: Connect) {
    this.#options = normalizeOptions(options);
    const refused = new RefusedDeletes(this);
    this.#sessions = new SessionManager(
      this.#options,
      async (request) => (connect ??= await loadTransport(this.#options))(request),
      {
        deleteRefused: (path, code) => refused.report(path, code),
        connectFailed: (failure) => failedConnects.publish({ client: this, ...failure }),
      },
    );
    this.#sessions.connection.listen((change) => publishConnection(this, change));
    this.namespace = this.#options.namespace;
    this.policy = this.#options.policy;
    this.transport = connect ? 'wire' : this.#options.transport;
  }

  /** @internal */
  [ITSELF](): ZkClient {
    return this;
  }

  get state(): ConnectionState {
    return this.#sessions.connection.state;
  }

  /** The kind of the servers, as the current session found it; undefined without a session. */
  get serverKind(): ServerKind | undefined {
    return this.#sessions.current?.serverKind;
  }

  /**
   * The id of the current session, hexadecimal, connected or suspended; undefined if there is none. Do not publish it: a
   * client that knows it can end the session.
   */
  get sessionId(): string | undefined {
    return this.#sessions.current?.id;
  }

  /** Whether the state is CONNECTED or RECONNECTED. */
  get connected(): boolean {
    const { state } = this.#sessions.connection;
    return state === 'CONNECTED' || state === 'RECONNECTED';
  }

  /**
   * Resolves when the first session is connected. If the retry policy gives up, it rejects with a
   * ConnectionError that has the failure of each server, and may be called again. After the first session
   * the client reconnects by itself until it is closed.
   *
   * @throws ConnectionError, NotAuthorizedError, ShuttingDownError
   */
  async connect(): Promise<void> {
    return this.#sessions.start();
  }

  /**
   * Closes the session, so that its ephemeral znodes are deleted at once, and rejects all pending calls with
   * ShuttingDownError. Idempotent. Afterwards the client does not keep the process alive. If no server
   * replies, it resolves after about 3 seconds, and the session ends with its timeout.
   */
  async close(): Promise<void> {
    return this.#sessions.stop();
  }

  /** Calls a listener at each change of the state, in order. Returns a function that removes the listener. */
  onState(listener: (change: StateChange) => void): () => void {
    return this.#sessions.connection.listen(listener);
  }

  /**
   * Resolves to the current session once it is connected; waits as long as the retry policy allows.
   *
   * @throws ConnectionError, WaitCancelledError if the signal aborts, ShuttingDownError
   */
  async session(options: { signal?: AbortSignal | undefined } = {}): Promise<Session> {
    const { signal } = checkOptions(options, { signal: ABORT_SIGNAL });
    return this.#sessions.session(signal);
  }

  /** Creates a znode, see {@link Session.create}. */
  async create(path: string, data?: string | Uint8Array, options?: CreateOptions): Promise<string> {
    return this.#write((session) => session.create(path, data, options));
  }

  /** Deletes a znode without children, see {@link Session.delete}. */
  async delete(path: string, version = -1): Promise<void> {
    return this.#write((session) => session.delete(path, version));
  }

  /** Reads the data and the stat of a znode. */
  async get(path: string): Promise<{ data: Buffer; stat: Stat }> {
    return this.#read((session) => session.get(path));
  }

  /** Replaces the data of an existing znode, see {@link Session.set}. */
  async set(path: string, data: string | Uint8Array, version = -1): Promise<Stat> {
    return this.#write((session) => session.set(path, data, version));
  }

  /** Reads the stat of a znode; undefined if it does not exist. */
  async exists(path: string): Promise<Stat | undefined> {
    return this.#read((session) => session.exists(path));
  }

  /** Reads the names of a znode's children, in no order, and the stat of the znode. */
  async children(path: string): Promise<{ children: string[]; stat: Stat }> {
    return this.#read((session) => session.children(path));
  }

  /** Carries out all operations or none of them, see {@link Session.transaction}. */
  async transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> {
    return this.#write((session) => session.transaction(operations));
  }

  /** Makes later reads see everything that any client wrote before this call. */
  async sync(path: string): Promise<void> {
    return this.#read((session) => session.sync(path));
  }

  /** Replaces the ACL of a znode, see {@link Session.setAcl}. */
  async setAcl(path: string, acl: Acl[], version = -1): Promise<void> {
    return this.#write((session) => session.setAcl(path, acl, version));
  }

  /** Like `get`, and watches for the next change of the data or the deletion of the znode. */
  async watch(path: string): Promise<{ data: Buffer; stat: Stat; watch: Watch }> {
    return this.#read((session) => session.get(path, { watch: true }));
  }

  /** Like `exists`, and watches for the creation, the deletion or the next change of the data of the znode. */
  async watchExists(path: string): Promise<{ stat: Stat | undefined; watch: Watch }> {
    return this.#read((session) => session.exists(path, { watch: true }));
  }

  /** Like `children`, and watches for the next creation or deletion of a child, or the deletion of the znode. */
  async watchChildren(path: string): Promise<{ children: string[]; stat: Stat; watch: Watch }> {
    return this.#read((session) => session.children(path, { watch: true }));
  }

  /** Adds a persistent watch in the current session, see {@link Session.addWatch}. */
  async addWatch(
    path: string,
    listener: (notification: WatchNotification) => void,
    options?: { recursive?: boolean | undefined },
  ): Promise<PersistentWatch> {
    return this.#read((session) => session.addWatch(path, listener, options));
  }

  /**
   * Creates a znode and its missing parents as containers, which ZooKeeper deletes some time after their last child was
   * deleted; with `persistent`, the znode itself is persistent. With the option `acl`, the namespace and the parents directly
   * below it are persistent too: otherwise another client could create them when they have been deleted, with an ACL of its
   * own. Curator's ensureContainers.
   */
  async ensureContainers(path: string, options: { persistent?: boolean } = {}): Promise<void> {
    const { persistent } = checkOptions(options, { persistent: BOOLEAN });
    return this.#ensure(path, persistent ? 'persistent' : 'container');
  }

  async #ensure(
    path: string,
    mode: 'container' | 'persistent',
    created?: Set<string>,
  ): Promise<void> {
    const { acl, chroot, namespace } = this.#options;
    const full = checkRequest(chroot, path);
    const kept = acl && (chroot + namespace || undefined);
    return this.#read((session) => ensureContainers(session, full, mode, kept, created));
  }

  /** Runs an operation that may be repeated even if an earlier attempt was applied. */
  #read<T>(operation: (session: Session) => Promise<T>): Promise<T> {
    return this.#sessions.run(operation, true);
  }

  #write<T>(operation: Write<T>): Promise<T> {
    return this.#sessions.run(operation, false);
  }
}

/**
 * Loads what a transport needs.
 *
 * @throws BadOptionError if the npm package `zookeeper` or `kerberos` is needed and cannot be loaded; Error in a simulated
 *   process, whose clients get their connections from the simulation
 */
async function loadTransport({ transport, tls, sasl }: NormalizedOptions): Promise<Connect> {
  if (isSimulated()) {
    throw new Error(
      'a simulated process cannot connect to real servers; connect a ZkModule by process.override(), and get a ZkClient from process.client()',
    );
  }
  if (transport === 'wire') return connectWire(tls && openTls(tls), await sasl?.());
  const { connectNative } = await import('./transport/native-transport.js');
  return connectNative();
}
