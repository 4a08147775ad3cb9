/**
 * A znode's stat as ZooKeeper keeps it. Zxids are exact: ZooKeeper's stay below 2^53 for any
 * ensemble that will ever run.
 *
 * @publicApi
 */
export interface Stat {
  readonly czxid: number;
  readonly mzxid: number;
  readonly pzxid: number;
  /** Wall-clock milliseconds since 1970. */
  readonly ctime: number;
  /** Wall-clock milliseconds since 1970. */
  readonly mtime: number;
  readonly version: number;
  readonly cversion: number;
  readonly aversion: number;
  /** The owning session's id in hexadecimal, `'0'` for a node that is not ephemeral. */
  readonly ephemeralOwner: string;
  readonly dataLength: number;
  readonly numChildren: number;
}

/**
 * What kind of node ZooKeeper makes: `container` is removed by the servers some time after its last child.
 *
 * @publicApi
 */
export type CreateMode =
  'persistent' | 'ephemeral' | 'persistent-sequential' | 'ephemeral-sequential' | 'container';

/**
 * One entry of an access list: who may do what.
 *
 * @publicApi
 */
export interface Acl {
  scheme: 'world' | 'auth' | 'digest' | 'ip';
  /** `anyone` for world, empty for auth, `user:base64(sha1(user:password))` for digest, an address for ip. */
  id: string;
  /** Any of `r`ead, `w`rite, `c`reate, `d`elete, `a`dmin, for example `'cdrwa'`. */
  permissions: string;
}

/**
 * Credentials.
 *
 * @publicApi
 */
export interface Auth {
  scheme: 'digest';
  user: string;
  password: string;
}

/**
 * What a watch saw. `session` stands for everything a watch may have missed: the connection came
 * back through another socket, or the session is over. Look again at the znode.
 *
 * @publicApi
 */
export type WatchEvent = 'created' | 'deleted' | 'changed' | 'child' | 'session';

/**
 * A watch that was set on a znode.
 *
 * @publicApi
 */
export interface Watch {
  /** Resolves with the first event, once; never rejects. */
  readonly fired: Promise<WatchEvent>;
  /** Forgets the watch; `fired` then stays pending. Idempotent. */
  remove(): void;
}

/**
 * CONNECTING until the first connection; SUSPENDED while the connection is away and the session may
 * live; RECONNECTED when it came back to the same session; LOST when the session can no longer be
 * trusted; CONNECTED again with the session made after it; CLOSED for good.
 *
 * @publicApi
 */
export type ConnectionState =
  'CONNECTING' | 'CONNECTED' | 'SUSPENDED' | 'RECONNECTED' | 'LOST' | 'CLOSED';

const BITS: Readonly<Record<string, number>> = { r: 1, w: 2, c: 4, d: 8, a: 16 };

/** The permissions of an ACL entry, as they travel. */
export function permissionBits(letters: string): number {
  let bits = 0;
  for (const letter of letters) bits |= BITS[letter] ?? 0;
  return bits;
}
