export {
  type Acl,
  type Auth,
  BadOptionError,
  ConnectionError,
  type ConnectionMessage,
  type ConnectionPolicy,
  type ConnectionState,
  CoordinationError,
  type CoordinationErrorOptions,
  type CreateMode,
  type CreateOptions,
  type DeleteRefusedMessage,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  type PersistentWatch,
  type RetryFunction,
  type RetryPolicy,
  type ServerKind,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  UnsafeServerError,
  type Stat,
  type StateChange,
  type SaslOptions,
  type TlsOptions,
  type TransactionOperation,
  type TransactionResults,
  type TransportName,
  WaitCancelledError,
  type Watch,
  type WatchEvent,
  type WatchNotification,
  ZkClient,
  type ZkClientOptions,
} from '../client/index.js';
export type {
  Hold,
  HoldMessage,
  LeaderMessage,
  ObservedCandidate,
  ObservedLock,
  Wait,
  WaitMessage,
} from '../kernel/diagnostics.js';
export type { CandidateState } from './candidate.js';
export type { CandidateOptions } from './candidate-options.js';
export { Candidate } from './candidate.js';
export { currentLease, currentTerm, runDetached } from '../kernel/call-chain.js';
export { onDeadlock } from '../kernel/deadlock/report.js';
export {
  RecipeConflictError,
  IllegalStateError,
  LeaseLostError,
  LockBusyError,
  LockRevokedError,
  LockTimeoutError,
  NotLeaderError,
  SelfDeadlockError,
  SequenceExhaustedError,
} from '../kernel/errors.js';
export type { AcquireOptions, Fairness, Lease } from '../kernel/lease.js';
export { type CloseMode, LeaderLatch, type LeaderLatchOptions } from './leader-latch.js';
export {
  CancelLeadershipError,
  LeaderSelector,
  type LeaderSelectorOptions,
  type TakeLeadership,
} from './leader-selector.js';
export { type Entry, Lock, type LockConstructorOptions } from './lock.js';
export { Mutex } from './mutex.js';
export { type MultiLease, MultiLock } from './multi-lock.js';
export { NonReentrantMutex } from './non-reentrant-mutex.js';
export { type LeaderParticipant, revoke } from '../kernel/participants.js';
export type { Permits } from './permit-limit.js';
export { ReadLock, ReadWriteLock, WriteLock } from './read-write-lock.js';
export { type PermitOptions, Semaphore, type SemaphoreOptions } from './semaphore.js';
export { SharedCount } from './shared-count.js';
export type { Term } from '../kernel/term.js';
export type {
  Deadlock,
  DeadlockMember,
  GrantKind,
  HolderDetails,
  Participant,
  Recipe,
} from '../kernel/types.js';
