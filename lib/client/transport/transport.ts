import type { Acl, Stat, WatchEvent } from '../types.js';

/** ZooKeeper's result codes, as far as this client tells them apart. */
export const Code = {
  Ok: 0,
  ConnectionLoss: -4,
  NoNode: -101,
  NoAuth: -102,
  BadVersion: -103,
  NoChildrenForEphemerals: -108,
  NodeExists: -110,
  NotEmpty: -111,
  SessionExpired: -112,
  InvalidAcl: -114,
  AuthFailed: -115,
  SessionMoved: -118,
} as const;

export interface Address {
  /** An IP literal. */
  readonly ip: string;
  readonly port: number;
  /** The name that the user wrote, or the literal. */
  readonly host: string;
  /** As the user wrote it, for messages. */
  readonly label: string;
}

/** What re-attaches a connection to a session that exists. */
export interface Credentials {
  /** Hexadecimal, as in `Stat.ephemeralOwner`. */
  readonly id: string;
  readonly password: string;
  /** Of the latest transaction seen, where the transport knows: a server that is behind refuses. */
  readonly lastZxid?: number;
}

export type NodeEvent = Exclude<WatchEvent, 'session'>;

/** Why a transport is no more: the connection broke, or the server ended the session or refused the credentials. */
export type DownReason = 'disconnected' | 'expired' | 'unauthorized';

export interface TransportListener {
  onWatch(event: NodeEvent, path: string): void;
  /**
   * The transport's end, once, unless close() or abandon() came first. Requests that are unanswered then
   * fail right after it, so that whoever is told of one finds the connection gone already.
   */
  onDown(reason: DownReason): void;
}

export interface ConnectRequest {
  readonly address: Address;
  /** Milliseconds, for the server to negotiate. */
  readonly sessionTimeout: number;
  /** Absent for a new session. */
  readonly credentials?: Credentials;
  /** `user:password` for ZooKeeper's digest scheme. */
  readonly digests: readonly string[];
  /** Ends the attempt, by its reason. */
  readonly signal: AbortSignal;
  readonly listener: TransportListener;
}

/**
 * What became of a request: `code` is 0 or ZooKeeper's error, and only with 0 is there a result.
 * Called once, never inside the call that made the request, in the order of the requests.
 */
export type Reply<T> = (code: number, result: T) => void;

export type WatchKind = 'data' | 'children';

/** What a transport can do beyond what every one can. */
export interface Capabilities {
  /** A node can be created with an ACL. */
  readonly aclOnCreate: boolean;
  /** close() never blocks, whatever the server does. */
  readonly promptClose: boolean;
}

/**
 * One connection, from the moment its session is attached until it breaks. It never reconnects:
 * the next connection is another object. Paths and versions are valid by contract, they are checked above.
 *
 * A request returns false where it never left; its reply is then never called.
 */
export interface Transport {
  /** With the latest transaction up to now. */
  readonly credentials: Credentials;
  /** The session timeout that the server granted, milliseconds. */
  readonly timeout: number;
  readonly capabilities: Capabilities;

  /** @param acl default: open; given only to a transport that can */
  create(
    path: string,
    data: Buffer,
    flags: number,
    acl: readonly Acl[] | undefined,
    reply: Reply<string>,
  ): boolean;
  delete(path: string, version: number, reply: Reply<void>): boolean;
  get(path: string, watch: boolean, reply: Reply<{ data: Buffer; stat: Stat }>): boolean;
  set(path: string, data: Buffer, version: number, reply: Reply<Stat>): boolean;
  exists(path: string, watch: boolean, reply: Reply<Stat>): boolean;
  children(path: string, watch: boolean, reply: Reply<{ children: string[]; stat: Stat }>): boolean;
  sync(path: string, reply: Reply<void>): boolean;
  setAcl(path: string, acl: readonly Acl[], version: number, reply: Reply<void>): boolean;
  /** Tells the server to forget a watch, where the transport can. */
  removeWatch?(path: string, kind: WatchKind, reply: Reply<void>): boolean;

  /**
   * Ends the session on the server, and resolves when it has answered or after a second at most, with
   * whether it did. May block for a round trip without `promptClose`: then only on a connection that
   * answered just now.
   */
  close(): Promise<boolean>;
  /** Drops the connection without a word and without blocking; the session lives on until it times out. */
  abandon(): void;
}

/**
 * Attaches one session over one connection.
 *
 * @throws ConnectionError, SessionExpiredError (only with credentials), NotAuthorizedError, or the signal's reason
 */
export type Connect = (request: ConnectRequest) => Promise<Transport>;
