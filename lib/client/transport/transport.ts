import {
  ConnectionError,
  type CoordinationError,
  errorCode,
  NotAuthorizedError,
  SessionExpiredError,
} from '../errors.js';
import type { Acl, Stat, WatchEvent } from '../types.js';

/** An address of a server. */
export interface Address {
  /** An IP literal. */
  readonly ip: string;
  readonly port: number;
  /** The name, or the IP literal without brackets, in the connect string. */
  readonly host: string;
  /** `host:port` for messages, with brackets around an IPv6 literal. */
  readonly label: string;
}

/** Identifies a session to a server that is to attach it again. */
export interface Credentials {
  /** Hexadecimal, as in `Stat.ephemeralOwner`. */
  readonly id: string;
  readonly password: string;
  /** The latest transaction seen, if the transport knows it: a server that has not seen it refuses the session. */
  readonly lastZxid?: number;
}

/** Requests a new session. */
export const NEW_SESSION: Credentials = { id: '0', password: '00'.repeat(16) };

export type NodeEvent = Exclude<WatchEvent, 'session'>;

/** Why a transport ended: the connection broke, or the server ended the session or refused the credentials. */
export type DownReason = 'disconnected' | 'expired' | 'unauthorized';

export interface TransportListener {
  onWatch(event: NodeEvent, path: string): void;
  /**
   * Called once when the transport ends, unless close() or destroy() was called before. Unanswered
   * requests fail right after it, so a caller whose request failed finds the connection already down.
   *
   * @param violation the client ended the connection, because the server violated the protocol
   */
  onDown(reason: DownReason, violation?: Error): void;
}

export interface ConnectRequest {
  readonly address: Address;
  /** The session timeout to negotiate, milliseconds. */
  readonly sessionTimeout: number;
  /** Absent for a new session. */
  readonly credentials?: Credentials;
  /** `user:password` for ZooKeeper's digest scheme. */
  readonly authInfo: readonly string[];
  /** Cancels the attempt, which then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  readonly listener: TransportListener;
}

/**
 * Receives the outcome of a request: `code` is 0, ZooKeeper's error code, or `ErrorCode.unsupported` if the transport
 * cannot send the request; `result` is valid only with code 0. Called once, in the order of the requests, and never before the request function returned.
 */
export type Reply<T> = (code: number, result: T) => void;

export type WatchKind = 'data' | 'children';

/** The content of a znode. */
export interface Content {
  readonly data: Buffer;
  readonly stat: Stat;
}

/** The children of a znode. */
export interface Listing {
  readonly children: string[];
  readonly stat: Stat;
}

/** An operation of a `multi`. */
export type MultiOperation =
  | {
      readonly kind: 'create';
      readonly path: string;
      readonly data: Buffer;
      readonly flags: number;
      /** Milliseconds; only with the flags of a znode with a TTL. */
      readonly ttl?: number | undefined;
      /** Default: open. Ignored by the native transport, which is refused with the option `acl`. */
      readonly acl?: readonly Acl[] | undefined;
    }
  | { readonly kind: 'set'; readonly path: string; readonly data: Buffer; readonly version: number }
  | { readonly kind: 'delete' | 'check'; readonly path: string; readonly version: number };

/** A request. Its paths have the chroot. The caller has checked all paths, data and versions. */
export type Request =
  | MultiOperation
  | {
      readonly kind: 'get' | 'exists' | 'children';
      readonly path: string;
      /** Sets a one-time watch. */
      readonly watch?: boolean;
      /** Another znode, whose create was requested before: the server carries out the read behind that create. */
      readonly after?: string;
    }
  | { readonly kind: 'sync'; readonly path: string }
  | {
      readonly kind: 'setAcl';
      readonly path: string;
      readonly acl: readonly Acl[];
      readonly version: number;
    }
  /** Carries out all operations or none. */
  | { readonly kind: 'multi'; readonly operations: readonly MultiOperation[] }
  /** Sets a persistent watch. */
  | { readonly kind: 'addWatch'; readonly path: string; readonly recursive: boolean }
  /** Removes watches on the server. */
  | { readonly kind: 'removeWatch'; readonly path: string; readonly watches: WatchKind | 'any' };

export type RequestKind = Request['kind'];
export type RequestOf<K extends RequestKind> = Request & { readonly kind: K };

/** The results of all operations of a `multi`, or the index and ZooKeeper's error code of the one that failed. */
export type MultiOutcome =
  { readonly results: readonly unknown[] } | { readonly failed: number; readonly code: number };

interface Results {
  /** The path of the znode. */
  create: string;
  get: Content;
  set: Stat;
  exists: Stat | undefined;
  children: Listing;
  multi: MultiOutcome;
}

/** The result of a request; void for those without. */
export type ResultOf<K extends RequestKind> = K extends keyof Results ? Results[K] : void;

/**
 * One connection with an attached session, until it breaks. It never reconnects: the next connection is
 * another object.
 */
export interface Transport {
  /** `host:port` of the server, for messages. */
  readonly server: string;
  /** With the latest transaction seen so far. */
  readonly credentials: Credentials;
  /** The session timeout that the server granted, milliseconds. */
  readonly timeout: number;
  /** Whether close() never blocks the event loop. */
  readonly promptClose: boolean;

  /** Returns false if the request was not sent; `reply` is then never called. */
  request<K extends RequestKind>(request: RequestOf<K>, reply: Reply<ResultOf<K>>): boolean;
  /**
   * Closes the session and the connection. Resolves to true when the server has confirmed it, or to false after at most
   * a second. Without `promptClose` it may block for a round trip: call it only on a connection that has just replied.
   */
  close(): Promise<boolean>;
  /** Drops the connection without blocking. The session stays alive until it times out. */
  destroy(): void;
}

/**
 * Attaches a session over one new connection.
 *
 * @throws ConnectionError, SessionExpiredError (only with credentials), NotAuthorizedError, or the signal's reason
 */
export type Connect = (request: ConnectRequest) => Promise<Transport>;

/** The error of an attempt that got no connection. */
export function unreachableError({ label, ip }: Address, cause: unknown): ConnectionError {
  return new ConnectionError(`${label}: no connection to ${ip} (${errorCode(cause)})`, { cause });
}

/** The error of several attempts that all failed. */
export function allFailed(failures: readonly Error[], prefix = ''): ConnectionError {
  const messages = failures.map((failure) => failure.message).join('; ');
  const cause = failures.length === 1 ? failures[0] : new AggregateError(failures);
  return new ConnectionError(prefix + messages, { cause });
}

/** The error of an attempt that got a connection, but no session on it. */
export function attachError(
  { address: { label }, credentials }: ConnectRequest,
  reason: DownReason,
  why: string,
  cause?: Error,
): CoordinationError {
  if (reason === 'unauthorized') {
    return new NotAuthorizedError(`${label} refused the credentials in auth`);
  }
  if (reason === 'expired' && credentials) {
    return new SessionExpiredError(`the session is over: ${label} does not know it`);
  }
  return new ConnectionError(`${label} did not attach a session: ${why}`, { cause });
}

const PERMISSION_BITS: Readonly<Record<string, number>> = { r: 1, w: 2, c: 4, d: 8, a: 16 };

/** Returns ZooKeeper's bit mask for the letters of `Acl.permissions`. */
export function permissionBits(letters: string): number {
  let bits = 0;
  for (const letter of letters) bits |= PERMISSION_BITS[letter] ?? 0;
  return bits;
}
