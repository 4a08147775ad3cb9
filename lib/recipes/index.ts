export * from '../client/index.js';
export type * from './diagnostics/index.js';
export type { CandidateOptions, CandidateState } from './candidate.js';
export { Candidate } from './candidate.js';
export { currentLease, currentTerm, runDetached } from './internals/call-chain.js';
export { type Deadlock, type DeadlockMember, onDeadlock } from './internals/deadlock/report.js';
export {
  DeadlockError,
  ForeignNodeError,
  IllegalStateError,
  LeaseLostError,
  LockBusyError,
  LockRevokedError,
  LockTimeoutError,
  NotLeaderError,
  SelfDeadlockError,
  SequenceExhaustedError,
} from './errors.js';
export type { AcquireOptions, Fairness, Lease } from './lease.js';
export { type CloseMode, LeaderLatch, type LeaderLatchOptions } from './leader-latch.js';
export type { LeaderParticipant } from './participants.js';
export {
  CancelLeadership,
  LeaderSelector,
  type LeaderSelectorOptions,
  type TakeLeadership,
} from './leader-selector.js';
export type { Recipe } from './internals/grant.js';
export type { HolderDetails } from './participants.js';
export { type Entry, Lock, type LockOptions } from './lock.js';
export { Mutex } from './mutex.js';
export { type MultiLease, MultiLock } from './multi-lock.js';
export { NonReentrantMutex } from './non-reentrant-mutex.js';
export type { Participant } from './participants.js';
export type { Permits } from './internals/permits.js';
export { ReadLock, ReadWriteLock, WriteLock } from './read-write-lock.js';
export { revoke } from './participants.js';
export { type PermitOptions, Semaphore, type SemaphoreOptions } from './semaphore.js';
export { SharedCount } from './shared-count.js';
export type { Term } from './term.js';
