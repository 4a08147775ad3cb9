/**
 * The stat of a znode. Its zxids (transaction ids) are exact: they stay below 2^53 in practice.
 *
 * @publicApi
 */
export interface Stat {
  /** The transaction that created the znode. */
  readonly czxid: number;
  /** The transaction that last set the data. */
  readonly mzxid: number;
  /** The transaction that last created or deleted a child. */
  readonly pzxid: number;
  /** When it was created: milliseconds since 1970 by the clock of the ensemble. */
  readonly ctime: number;
  /** When its data was last set, as `ctime`. */
  readonly mtime: number;
  /** The number of changes of the data. */
  readonly version: number;
  /** The number of changes of the list of children. */
  readonly cversion: number;
  /** The number of changes of the ACL. */
  readonly aversion: number;
  /** The owning session's id in hexadecimal, `'0'` for a znode that is not ephemeral. */
  readonly ephemeralOwner: string;
  /** Bytes. */
  readonly dataLength: number;
  readonly numChildren: number;
}

/**
 * The type of a znode. The servers delete a `container` some time after its last child was deleted.
 *
 * @publicApi
 */
export type CreateMode =
  'persistent' | 'ephemeral' | 'persistent-sequential' | 'ephemeral-sequential' | 'container';

/**
 * The options of `create`; see {@link Session.create}.
 *
 * @publicApi
 */
export interface CreateOptions {
  /** The type of the znode; default `'persistent'`. */
  mode?: CreateMode | undefined;
  /** The time to live of the znode, milliseconds. Default: none, the znode has no limit. */
  ttl?: number | undefined;
}

/**
 * One entry of an access control list (ACL).
 *
 * @publicApi
 */
export interface Acl {
  /** How a client proves who it is. */
  scheme: 'world' | 'auth' | 'digest' | 'sasl' | 'ip';
  /**
   * `anyone` for world, empty for auth, `user:base64(sha1(user:password))` for digest, the name of a user or
   * a Kerberos principal for sasl, an IP address or network (`10.0.0.0/8`) for ip.
   */
  id: string;
  /** Any of `r`ead, `w`rite, `c`reate, `d`elete, `a`dmin, for example `'cdrwa'`. */
  permissions: string;
}

/**
 * Credentials for ZooKeeper's digest scheme.
 *
 * @publicApi
 */
export interface Auth {
  /** The only scheme that is supported. */
  scheme: 'digest';
  /** Not empty, without `:` and NUL. */
  user: string;
  /** Not empty, without NUL. */
  password: string;
}

/**
 * The event that fired a watch: the znode was created or deleted, its data `changed`, or a `child` of it was created or
 * deleted. `session` means that the watch may have missed events, because the client reconnected, the session ended, or
 * the server replaced it by a recursive watch: read the znode again.
 *
 * @publicApi
 */
export type WatchEvent = 'created' | 'deleted' | 'changed' | 'child' | 'session';

/**
 * A one-time watch on a znode.
 *
 * @publicApi
 */
export interface Watch {
  /** Resolves to the first event; never rejects. */
  readonly fired: Promise<WatchEvent>;
  /** Removes the watch; `fired` then stays pending. Idempotent. */
  remove(): void;
}

/**
 * An event of a persistent watch.
 *
 * @publicApi
 */
export interface WatchNotification {
  readonly event: WatchEvent;
  /** The znode that it is about; with the event `session`, the path of the watch. */
  readonly path: string;
}

/**
 * A persistent watch; see {@link Session.addWatch}.
 *
 * @publicApi
 */
export interface PersistentWatch {
  /** Removes the watch, also on the server. Its listener is not called any more. Idempotent. */
  remove(): void;
}

/**
 * The state of a client's connection.
 *
 * - CONNECTING: there was no connection yet;
 * - CONNECTED: connected with a new session;
 * - SUSPENDED: disconnected, the session may still be alive;
 * - RECONNECTED: connected again with the same session;
 * - LOST: the session expired, or may have; the client connects with a new one;
 * - CLOSED: the client was closed. Final.
 *
 * @publicApi
 */
export type ConnectionState =
  'CONNECTING' | 'CONNECTED' | 'SUSPENDED' | 'RECONNECTED' | 'LOST' | 'CLOSED';
