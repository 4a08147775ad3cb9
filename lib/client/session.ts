import type { CoordinationError, SessionExpiredError, ShuttingDownError } from './errors.js';
import type { ServerKind } from './server-kind.js';
import type { TransactionOperation, TransactionResults } from './transaction.js';
import type {
  Acl,
  CreateOptions,
  PersistentWatch,
  Stat,
  Watch,
  WatchNotification,
} from './types.js';

/**
 * A ZooKeeper session. Its id never changes; when it is over, the client starts another session. Each
 * operation is one attempt, within this session only, and rejects with
 *
 * - ConnectionError: the request was not sent or, if `maybeApplied` is true, its reply was lost;
 * - SessionExpiredError: the session is over; a pending request may have been carried out;
 * - NodeError, NotAuthorizedError: the server refused the request;
 * - BadOptionError: an argument is invalid; nothing was sent;
 * - ShuttingDownError: the client was closed.
 *
 * Requests about one znode, or about a znode and its child, are carried out in the order of the calls. So a create and
 * the listing that is to include the new znode can be sent together. Others may pass each other.
 *
 * @publicApi
 */
export interface Session {
  /** Hexadecimal, as in `Stat.ephemeralOwner`. */
  readonly id: string;
  /** The session timeout that the server granted, milliseconds. */
  readonly timeout: number;
  /**
   * Whether the session is known to be alive now. Each read of this property reads the clock, and ends the
   * session (state LOST) if it has had no reply for three quarters of its timeout.
   */
  readonly alive: boolean;
  /** Whether there is a connection. Without one, operations reject in the next turn of the event loop. */
  readonly connected: boolean;
  /** Whether the session is alive and, under the policy `'standard'`, also connected. */
  readonly trusted: boolean;
  /** The kind of the server of the latest connection; undefined before the first one. */
  readonly serverKind: ServerKind | undefined;

  /** Calls a listener once when the session is over, or soon if it is already. Returns a function that removes the listener. */
  onLost(listener: (reason: SessionExpiredError | ShuttingDownError) => void): () => void;
  /** Calls a listener once when the session is no longer trusted, or soon if it is not. Returns a function that removes the listener. */
  onUntrusted(listener: (reason: CoordinationError) => void): () => void;

  /**
   * Creates a znode with the ACL of the client's option `acl`. Resolves to its path, which ends in ten digits if the mode is
   * sequential.
   *
   * `ttl` is a time to live for the modes `'persistent'` and `'persistent-sequential'`: the servers delete the znode when
   * it has had no children and no change for so many milliseconds (a whole number from 1 to 2,147,483,647, 24 days). They
   * look once a minute. Servers without the setting `zookeeper.extendedTypesEnabled=true` refuse it with a NodeError of
   * the code UNIMPLEMENTED. Default: none.
   *
   * @param data default: empty
   */
  create(path: string, data?: string | Uint8Array, options?: CreateOptions): Promise<string>;
  /**
   * Deletes a znode without children.
   *
   * @param version the expected version of its data; default -1: any
   */
  delete(path: string, version?: number): Promise<void>;
  /** Reads data and stat, and watches for the next change of the data or the deletion of the znode. */
  get(path: string, options: { watch: true }): Promise<{ data: Buffer; stat: Stat; watch: Watch }>;
  /** Reads data and stat. */
  get(path: string, options?: { watch?: false }): Promise<{ data: Buffer; stat: Stat }>;
  /**
   * Replaces the data of an existing znode.
   *
   * @param version the expected version of its data; default -1: any
   */
  set(path: string, data: string | Uint8Array, version?: number): Promise<Stat>;
  /** Reads the stat, undefined if the znode does not exist, and watches for its creation, deletion or next change. */
  exists(path: string, options: { watch: true }): Promise<{ stat: Stat | undefined; watch: Watch }>;
  /** Reads the stat; undefined if the znode does not exist. */
  exists(path: string, options?: { watch?: false }): Promise<Stat | undefined>;
  /** Reads the names of the children, in no order, and the stat; watches for the next creation or deletion of a child. */
  children(
    path: string,
    options: { watch: true },
  ): Promise<{ children: string[]; stat: Stat; watch: Watch }>;
  /** Reads the names of the children, in no order, and the stat of the znode. */
  children(path: string, options?: { watch?: false }): Promise<{ children: string[]; stat: Stat }>;
  /**
   * Adds a watch that is not removed when it fires: for all changes of a znode and of its list of children, or with
   * `recursive` for the creation, change and deletion of the znode and of all znodes below it. The znode need not exist.
   *
   * The listener is called with each event, possibly before the promise resolves. The event `session` means that events
   * may have been missed, because the client reconnected or the session ended. It is the last one: add the watch again,
   * and read again.
   *
   * Rejects with a NodeError of the code UNIMPLEMENTED with `transport: 'native'`, and if the server is older than
   * ZooKeeper 3.6, which also breaks the connection. Use one-time watches then. All persistent watches of a session on one
   * path must have the same `recursive` (BadOptionError).
   *
   * Counterpart of `addWatch` in ZooKeeper's client.
   *
   * @param options `recursive`: default false
   */
  addWatch(
    path: string,
    listener: (notification: WatchNotification) => void,
    options?: { recursive?: boolean | undefined },
  ): Promise<PersistentWatch>;
  /** Makes later reads see everything that any client wrote before this call. */
  sync(path: string): Promise<void>;
  /**
   * Replaces the ACL of a znode.
   *
   * @param version the expected version of the ACL (`Stat.aversion`); default -1: any
   */
  setAcl(path: string, acl: Acl[], version?: number): Promise<void>;

  /**
   * Carries out all operations in their order, or none of them. Resolves to one result for each operation. The NodeError
   * or NotAuthorizedError of an operation that the server refused has the `index` of that operation. The operations must
   * fit into one request, about 1 MB.
   *
   * Rejects with a NodeError of the code UNIMPLEMENTED with `transport: 'native'`.
   *
   * Counterpart of Curator's `client.transaction().forOperations()`.
   */
  transaction<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>>;

  /**
   * Deletes an ephemeral znode of this session, even if the connection breaks: then right after the reconnection, before
   * any later create, or with the end of the session. Resolves when the server has replied or the delete is left to
   * the reconnection. Rejects only for an invalid path. Counterpart of Curator's guaranteed delete.
   */
  guaranteedDelete(path: string): Promise<void>;
}
