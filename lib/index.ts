export * from './recipes/index.js';
export { DistributedLock } from './decorators/distributed-lock.decorator.js';
export type {
  DistributedLockOptions,
  KeyFromContext,
} from './decorators/distributed-lock.types.js';
export type { ErrorMapping } from './decorators/error-mapping.js';
export { MisuseError } from './decorators/errors.js';
export { ZkExceptionFilter } from './decorators/zk-exception.filter.js';
export type { LockDefaults, LockOptions } from './services/lock-options.js';
export { LockService } from './services/lock.service.js';
export { ZkModule } from './zk.module.js';
export type {
  ZkModuleAsyncOptions,
  ZkModuleExtras,
  ZkModuleOptions,
  ZkNestOptions,
  ZkOptionsFactory,
} from './zk.options.js';
export {
  getLockServiceToken,
  getZkClientToken,
  InjectLockService,
  InjectZkClient,
} from './zk.tokens.js';
