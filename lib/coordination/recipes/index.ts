export {
  type Acl,
  type Auth,
  BadOptionError,
  ConnectionError,
  type ConnectionPolicy,
  type ConnectionState,
  CoordinationError,
  type CreateMode,
  NodeError,
  NotAuthorizedError,
  type PersistentWatch,
  type RetryPolicy,
  SessionExpiredError,
  ShuttingDownError,
  type Stat,
  type TransactionOperation,
  type TransactionResults,
  WaitCancelledError,
  type WatchEvent,
  type WatchNotification,
  ZkClient,
  type ZkClientOptions,
} from '../../client/index.js';
export { ZkCache, type ZkCacheOptions } from './cache.js';
export type { CachedNode, CacheEvent } from './internals/cache-copy.js';
export {
  IllegalStateError,
  LeaseLostError,
  LockTimeoutError,
  RecipeConflictError,
  SequenceExhaustedError,
  type WaitOptions,
  WaitTimeoutError,
} from '../../kernel/index.js';
export {
  CounterOverflowError,
  MemberIdTakenError,
  PartitionCountError,
  PartitionReleasedError,
  QueueFullError,
  QueueItemError,
} from './errors.js';
export {
  type AtomicValue,
  DistributedAtomicLong,
  type DistributedAtomicLongOptions,
} from './distributed-atomic-long.js';
export { GroupMember, type GroupMemberOptions } from './group-member.js';
export type { Partition } from './partition.js';
export { Partitioner, type PartitionHandler } from './partitioner.js';
export type { PartitionerOptions } from './partitioner-options.js';
export { type BarrierOptions, DistributedBarrier } from './distributed-barrier.js';
export { DistributedDoubleBarrier } from './distributed-double-barrier.js';
export { DistributedQueue, type PutOptions, type QueueOptions } from './distributed-queue.js';
export { JSON_SERIALIZER, type QueueSerializer } from './internals/queue-items.js';
export { PersistentNode, type PersistentNodeOptions } from './persistent-node.js';
export type {
  ConsumeOptions,
  ConsumerHandle,
  QueueHandler,
  QueueItemContext,
} from './consume-options.js';
