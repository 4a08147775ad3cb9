export {
  type Acl,
  BadOptionError,
  ConnectionError,
  type ConnectionState,
  CoordinationError,
  type CreateMode,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  type PersistentWatch,
  type RetryPolicy,
  type ServerKind,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  type Stat,
  type StateChange,
  type TransactionOperation,
  type TransactionResults,
  UnsafeServerError,
  WaitCancelledError,
  type Watch,
  type WatchEvent,
  type WatchNotification,
  ZkClient,
  type ZkClientOptions,
} from '../client/index.js';
export { currentLease, currentTerm, runDetached } from '../kernel/call-chain.js';
export { onDeadlock } from '../kernel/deadlock/report.js';
export type { DiagnosticsMessages } from '../kernel/diagnostics.js';
export {
  IllegalStateError,
  LeaseLostError,
  LockBusyError,
  LockRevokedError,
  LockTimeoutError,
  NotLeaderError,
  RecipeConflictError,
  SelfDeadlockError,
  SequenceExhaustedError,
} from '../kernel/errors.js';
export type { AcquireOptions, Lease } from '../kernel/lease.js';
export { type LeaderParticipant, revoke } from '../kernel/participants.js';
export type { Term } from '../kernel/term.js';
export type { Deadlock, HolderDetails, LockKind, Participant } from '../kernel/types.js';
export { Candidate, type CandidateState } from './candidate.js';
export { LeaderLatch } from './leader-latch.js';
export { CancelLeadershipError, LeaderSelector } from './leader-selector.js';
export { type Entry, Lock } from './lock.js';
export { type MultiLease, MultiLock } from './multi-lock.js';
export { Mutex } from './mutex.js';
export { NonReentrantMutex } from './non-reentrant-mutex.js';
export { ReadLock, ReadWriteLock, WriteLock } from './read-write-lock.js';
export { Semaphore } from './semaphore.js';
export { SharedCount } from './shared-count.js';
