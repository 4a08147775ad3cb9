export { WaitTimeoutError } from '../kernel/index.js';
export { CoordinationModule } from './coordination.module.js';
export { CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
export { type LiveValue, LiveValueError, type StandardSchema } from './live-value.js';
export { getPartitionServiceToken, PartitionService } from './partition.service.js';
export { Partitioned } from './partitioned.decorator.js';
export { QueueConsumer } from './queue-consumer.decorator.js';
export { ZkCache } from './recipes/cache.js';
export type { ConsumerHandle, QueueHandler, QueueItemContext } from './recipes/consume-options.js';
export { DistributedAtomicLong } from './recipes/distributed-atomic-long.js';
export { DistributedBarrier } from './recipes/distributed-barrier.js';
export { DistributedDoubleBarrier } from './recipes/distributed-double-barrier.js';
export { DistributedQueue } from './recipes/distributed-queue.js';
export {
  CounterOverflowError,
  MemberIdTakenError,
  PartitionCountError,
  PartitionReleasedError,
  QueueFullError,
  QueueItemError,
} from './recipes/errors.js';
export { GroupMember } from './recipes/group-member.js';
export type { CachedNode, CacheEvent } from './recipes/internals/cache-copy.js';
export type { AtomicValue } from './recipes/internals/counter-value.js';
export { JSON_SERIALIZER, type QueueSerializer } from './recipes/internals/queue-items.js';
export type { Partition } from './recipes/partition.js';
export { Partitioner } from './recipes/partitioner.js';
export { PersistentNode } from './recipes/persistent-node.js';
export { getZkValueToken, ZkValue, type ZkValueDecorator } from './zk-value.decorator.js';
