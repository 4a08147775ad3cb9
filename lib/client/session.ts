import type { CoordinationError, SessionExpiredError, ShuttingDownError } from './errors.js';
import type { Acl, CreateMode, Stat, Watch } from './types.js';

/**
 * One ZooKeeper session. Its id is fixed for life, and once lost it is over for good: the client then
 * makes another. Every operation is one try that never crosses into another session, and rejects with
 *
 * - ConnectionError: it never left, or, where `maybeApplied` is true, its answer was lost;
 * - SessionExpiredError: the session is over; whether a request in flight was carried out is unknown;
 * - NodeError, NotAuthorizedError: the server's answer;
 * - BadOptionError: an argument, before anything is sent;
 * - ShuttingDownError: the client was closed.
 *
 * Requests leave in the order of the calls and are answered in it, so a create and the listing that
 * is to show it may leave in one flight.
 *
 * @publicApi
 */
export interface Session {
  /** Hexadecimal, as in `Stat.ephemeralOwner`. */
  readonly id: string;
  /** The session timeout that the server granted, milliseconds. */
  readonly timeout: number;
  /**
   * Whether this client can vouch for the session at this very moment: the clock is read at the call,
   * and a session that ran out of time is declared lost by it.
   */
  readonly alive: boolean;
  /** Whether a connection stands. An operation is refused in the next turn where none does. */
  readonly connected: boolean;
  /** Alive and, under the policy `'standard'`, also connected. */
  readonly trusted: boolean;

  /** Called once, when the session is over; soon, if it is already. Returns what removes the listener. */
  onLost(listener: (reason: SessionExpiredError | ShuttingDownError) => void): () => void;
  /** Called once, when the session can no longer be trusted; soon, if that is so already. */
  onUntrusted(listener: (reason: CoordinationError) => void): () => void;

  /** Resolves with the path of the new node, which ends in ten digits for a sequential one. */
  create(
    path: string,
    data?: string | Uint8Array,
    options?: { mode?: CreateMode },
  ): Promise<string>;
  /**
   * Deletes a node without children.
   *
   * @param version default -1: any
   */
  delete(path: string, version?: number): Promise<void>;
  /** Data and stat; with `watch`, what tells of the next change to either. */
  get(path: string, options: { watch: true }): Promise<{ data: Buffer; stat: Stat; watch: Watch }>;
  /** As above, without a watch. */
  get(path: string, options?: { watch?: false }): Promise<{ data: Buffer; stat: Stat }>;
  /**
   * Replaces the data of a node that is there.
   *
   * @param version default -1: any
   */
  set(path: string, data: string | Uint8Array, version?: number): Promise<Stat>;
  /** The stat, undefined where there is no node; with `watch`, what tells when that changes. */
  exists(path: string, options: { watch: true }): Promise<{ stat: Stat | undefined; watch: Watch }>;
  /** As above, without a watch. */
  exists(path: string, options?: { watch?: false }): Promise<Stat | undefined>;
  /** Names in no order, and the stat of the parent; with `watch`, what tells of the next one to come or go. */
  children(
    path: string,
    options: { watch: true },
  ): Promise<{ children: string[]; stat: Stat; watch: Watch }>;
  /** As above, without a watch. */
  children(path: string, options?: { watch?: false }): Promise<{ children: string[]; stat: Stat }>;
  /** What is read after it is at least as new as what any client wrote before it. */
  sync(path: string): Promise<void>;
  /**
   * Replaces the access list of a node.
   *
   * @param version the ACL's own version (`Stat.aversion`); default -1: any
   */
  setAcl(path: string, acl: Acl[], version?: number): Promise<void>;

  /**
   * Deletes an ephemeral node of this session for certain: now, or after the connection came back and
   * before any create that follows it, or with the end of the session. Resolves on the server's answer
   * or once the background has it, and rejects for nothing but a bad path. Counterpart of Curator's
   * guaranteed delete.
   */
  discard(path: string): Promise<void>;
}
