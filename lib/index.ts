export {
  BadKeyError,
  BadOptionError,
  ConnectionError,
  CoordinationError,
  NodeError,
  NotAuthorizedError,
  SessionExpiredError,
  ShuttingDownError,
  UnsafeServerError,
  WaitCancelledError,
  ZkClient,
} from './client/index.js';
export { DistributedLock } from './decorators/distributed-lock.decorator.js';
export { DistributedSemaphore } from './decorators/distributed-semaphore.decorator.js';
export type {
  DistributedLockOptions,
  DistributedSemaphoreOptions,
  LockableMethod,
  LockKey,
  MethodDecoratorFor,
} from './decorators/decorator-types.js';
export { OnElected, OnResigned } from './decorators/election-listeners.js';
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
export {
  CancelLeadershipError,
  currentLease,
  currentTerm,
  IllegalStateError,
  type Lease,
  LeaseLostError,
  LockBusyError,
  LockRevokedError,
  LockTimeoutError,
  type MultiLease,
  NotLeaderError,
  RecipeConflictError,
  runDetached,
  SelfDeadlockError,
  SequenceExhaustedError,
  type Term,
} from './recipes/index.js';
export { type LeadershipChange, LeaderService } from './services/leader.service.js';
export type { LeaseOptions } from './services/lease-service.js';
export { type LeaseOf, type LockOptions, LockService } from './services/lock.service.js';
export { LockRunCoordinator } from './services/lock-run-coordinator.js';
export { SemaphoreService } from './services/semaphore.service.js';
export {
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
} from './services/tokens.js';
export { ZkModule } from './zk.module.js';
export type { ZkModuleAsyncOptions, ZkModuleOptions, ZkOptionsFactory } from './zk.options.js';
