export * from './recipes/index.js';
export type {
  DistributedLockOptions,
  DistributedSemaphoreOptions,
  HoldingOptions,
  KeyFromContext,
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
export type { ErrorMapping } from './decorators/zk-exception.filter.js';
export { MisuseError } from './decorators/requirement.js';
export {
  LeaderOnly,
  type LeaderOnlyOptions,
  type NotLeaderCall,
} from './decorators/leader-only.decorator.js';
export { ZkExceptionFilter } from './decorators/zk-exception.filter.js';
export type {
  ElectionAtStart,
  ElectionOptions,
  SelectOptions,
} from './services/service-options.js';
export { LeaderService, type LeadershipChange } from './services/leader.service.js';
export type { LeaseDefaults, LeaseOptions } from './services/service-options.js';
export type { LockKeys } from './services/keys.js';
export type { LockMode, LockOptions } from './services/service-options.js';
export { type LeaseOf, type LockQuery, LockService } from './services/lock.service.js';
export type { AcquirePermitOptions, SemaphoreQuery } from './services/service-options.js';
export { SemaphoreService } from './services/semaphore.service.js';
export { ZkModule } from './zk.module.js';
export type {
  WarnAfter,
  ZkModuleAsyncOptions,
  ZkModuleExtras,
  ZkModuleOptions,
  ZkNestOptions,
  ZkOptionsFactory,
} from './zk.options.js';
export {
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
  InjectLeaderService,
  InjectLockService,
  InjectSemaphoreService,
  InjectZkClient,
} from './zk.tokens.js';
