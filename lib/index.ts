export {
  type Acl,
  type Auth,
  BadKeyError,
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
} from './client/index.js';
export {
  type AcquireOptions,
  CancelLeadershipError,
  Candidate,
  type CandidateOptions,
  type CandidateState,
  type CloseMode,
  currentLease,
  currentTerm,
  type Deadlock,
  DeadlockError,
  type DeadlockMember,
  type Entry,
  type Fairness,
  RecipeConflictError,
  type GrantKind,
  type Hold,
  type HolderDetails,
  type HoldMessage,
  IllegalStateError,
  LeaderLatch,
  type LeaderLatchOptions,
  type LeaderMessage,
  type LeaderParticipant,
  LeaderSelector,
  type LeaderSelectorOptions,
  type Lease,
  LeaseLostError,
  Lock,
  LockBusyError,
  type LockConstructorOptions,
  LockRevokedError,
  LockTimeoutError,
  type MultiLease,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  NotLeaderError,
  type ObservedCandidate,
  type ObservedLock,
  onDeadlock,
  type Participant,
  type PermitOptions,
  type Permits,
  ReadLock,
  ReadWriteLock,
  type Recipe,
  revoke,
  runDetached,
  SelfDeadlockError,
  Semaphore,
  type SemaphoreOptions,
  SequenceExhaustedError,
  SharedCount,
  type TakeLeadership,
  type Term,
  type Wait,
  type WaitMessage,
  WriteLock,
} from './recipes/index.js';
export type {
  DistributedLockOptions,
  DistributedSemaphoreOptions,
  KeyFromContext,
  LeaseDecoratorOptions,
  LockableMethod,
  LockDecorator,
  LockKey,
  SemaphoreKey,
  Skippable,
} from './decorators/decorator-types.js';
export { DistributedLock } from './decorators/distributed-lock.decorator.js';
export { DistributedSemaphore } from './decorators/distributed-semaphore.decorator.js';
export {
  type ElectionListenerOptions,
  OnElected,
  OnResigned,
} from './decorators/election-listeners.js';
export { ForwardingError } from './decorators/forward-to-leader.js';
export {
  InjectLeaderService,
  InjectLockService,
  InjectSemaphoreService,
  InjectZkClient,
} from './decorators/inject.decorators.js';
export {
  LeaderOnly,
  type LeaderOnlyOptions,
  type NotLeaderCall,
} from './decorators/leader-only.decorator.js';
export { MisuseError } from './decorators/requirement.js';
export { type ErrorMapping, ZkExceptionFilter } from './decorators/zk-exception.filter.js';
export type {
  ElectionAtStart,
  ElectionOptions,
  SelectOptions,
} from './services/election-options.js';
export type { LockKeys } from './services/keys.js';
export { LockRunCoordinator } from './services/lock-run-coordinator.js';
export { type LeadershipChange, LeaderService } from './services/leader.service.js';
export type { LeaseDefaults, LeaseOptions } from './services/lease-service.js';
export {
  type LeaseOf,
  type LockMode,
  type LockOptions,
  type LockQuery,
  LockService,
} from './services/lock.service.js';
export type { WarnAfter } from './services/overdue-monitor.js';
export {
  type AcquirePermitOptions,
  type SemaphoreQuery,
  SemaphoreService,
} from './services/semaphore.service.js';
export {
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
} from './services/tokens.js';
export { ZkModule } from './zk.module.js';
export type {
  ZkModuleAsyncOptions,
  ZkModuleExtras,
  ZkModuleOptions,
  ZkNestOptions,
  ZkOptionsFactory,
} from './zk.options.js';
