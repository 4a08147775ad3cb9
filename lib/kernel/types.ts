import type { ZkClient } from '../client/index.js';

/** Names a lock, a semaphore or an election in messages. */
export interface Subject {
  readonly noun: 'lock' | 'semaphore' | 'election';
  readonly key: string;
}

/** The kind of a lock. Locks of one kind on one path exclude or share each other. */
export type LockKind = 'mutex' | 'read' | 'write' | 'semaphore' | 'election';

/**
 * How a grant came about: `'cold'`, by a new znode; `'handed-over'`, from another caller of this process, whose
 * release is not awaited; `'lingering'`, by the znode that the last caller left; `'shared'`, beside other readers of this process;
 * `'re-entered'`, by a call chain that holds the lock already.
 *
 * @publicApi
 */
export type GrantKind = 'cold' | 'handed-over' | 'lingering' | 'shared' | 're-entered';

/**
 * What a holder or a waiter says about itself. Its znode keeps this beside the host and the process id.
 *
 * @publicApi
 */
export interface HolderDetails {
  /** The name of the service or instance. Default: none. */
  name?: string | undefined;
  /** A text for people. Default: none. */
  text?: string | undefined;
  /** Any value that JSON can express. Default: none. */
  data?: unknown;
}

/**
 * A znode that holds a lock or waits for it. Callers of one process that share a znode count as one participant.
 *
 * @publicApi
 */
export interface Participant {
  /** The path of the znode. */
  readonly path: string;
  /**
   * `'lingering'` means that nobody holds the lock, and its process keeps the znode for its next caller (see
   * {@link AcquireOptions.linger}). Only that process knows it. Every other process sees `'holding'` and `mayLinger`.
   */
  readonly state: 'holding' | 'lingering' | 'waiting';
  /**
   * Whether the znode belongs to another process whose callers use `linger`. That process may have handed the lock over or
   * released it without a request, so it holds the lock or lingers, and `details` may be those of an earlier holder.
   */
  readonly mayLinger: boolean;
  /** What the participant holds or waits for. */
  readonly mode: 'exclusive' | 'read' | 'write' | 'permit';
  /**
   * For a znode of this process that holds or lingers: when the current hold (of readers, the longest one) or the linger
   * began. For any other znode: when it was created, by the clock of the ensemble. Its process has waited for the lock
   * since then, or has held it for one caller after the other.
   */
  readonly since: Date;
  /** The id of the session that owns the znode, in hexadecimal. Do not publish it, see {@link ZkClient.sessionId}. */
  readonly session: string;
  /** Whether somebody asked this holder to release the lock. The request hides the details from other processes. */
  readonly revoked: boolean;
  /** The host of the process; undefined for znodes of other libraries. */
  readonly host?: string;
  /** The id of the process; undefined for znodes of other libraries. */
  readonly pid?: number;
  /**
   * The details of the holder or of the first waiter; undefined while the znode lingers. Other processes see those of a
   * hold that has lasted for 50 ms; until then they see those of an earlier holder. Of the readers that share a znode,
   * other processes see the details of the first one.
   */
  readonly details?: HolderDetails;
  /** The data of a znode of another library, as text. Curator writes the address of the host. */
  readonly text?: string;
}

/**
 * A participant of a deadlock.
 *
 * @publicApi
 */
export interface DeadlockMember {
  /** The key of the lock that it holds. */
  readonly key: string;
  /** The znode that holds that lock, and what the znode says about its holder. */
  readonly holder: Participant;
  /** The key of the lock that it waits for. */
  readonly waitsFor: string;
  /** Whether it belongs to this process. */
  readonly here: boolean;
  /** When its wait times out, by the clock of its machine, to a fifth of a second; undefined for never. */
  readonly endsAt?: Date;
}

/**
 * A cycle of waits: each member waits for the lock that the next one holds, and the last member for the lock that the
 * first one holds.
 *
 * @publicApi
 */
export interface Deadlock {
  readonly client: ZkClient;
  readonly cycle: readonly DeadlockMember[];
  /** A text for people. */
  readonly message: string;
}
