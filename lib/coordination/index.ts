export {
  type AtomicValue,
  type BarrierOptions,
  type CachedNode,
  type CacheEvent,
  type ConsumeOptions,
  type ConsumerHandle,
  CounterOverflowError,
  DistributedAtomicLong,
  type DistributedAtomicLongOptions,
  DistributedBarrier,
  DistributedDoubleBarrier,
  DistributedQueue,
  GroupMember,
  type GroupMemberOptions,
  JSON_SERIALIZER,
  MemberIdTakenError,
  type Partition,
  PartitionCountError,
  Partitioner,
  type PartitionerOptions,
  type PartitionHandler,
  PartitionReleasedError,
  PersistentNode,
  type PersistentNodeOptions,
  type PutOptions,
  QueueFullError,
  type QueueHandler,
  type QueueItemContext,
  QueueItemError,
  type QueueOptions,
  type QueueSerializer,
  type WaitOptions,
  WaitTimeoutError,
  ZkCache,
  type ZkCacheOptions,
} from './recipes/index.js';
export { CoordinationModule, type CoordinationModuleOptions } from './coordination.module.js';
export { CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
export {
  type LiveValue,
  LiveValueError,
  type LiveValueOptions,
  type StandardResult,
  type StandardSchema,
} from './live-value.js';
export { getPartitionServiceToken, PartitionService } from './partition.service.js';
export { Partitioned, type PartitionedOptions } from './partitioned.decorator.js';
export { QueueConsumer, type QueueConsumerOptions } from './queue-consumer.decorator.js';
export {
  getZkValueToken,
  ZkValue,
  type ZkValueDecorator,
  type ZkValueOptions,
} from './zk-value.decorator.js';
