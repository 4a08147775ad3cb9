import { checkKey } from '../services/keys.js';
import { checkArguments } from '../decorators/decorate-method.js';
import { backgroundMethod } from './background-method.js';
import type { Partition } from './recipes/partition.js';
import {
  checkPartitioner,
  PARTITIONER_RULES,
  type PartitionerOptions,
} from './recipes/partitioner-options.js';
import { type Rules, UNCHECKED } from '../client/index.js';

/**
 * The options of {@link Partitioned}.
 *
 * @publicApi
 */
export interface PartitionedOptions extends Omit<PartitionerOptions, 'onError'> {
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
}

const { onError: _, ...partitionerRules } = PARTITIONER_RULES;
const RULES: Rules<PartitionedOptions> = { ...partitionerRules, connection: UNCHECKED };

const INFO = { decorator: '@Partitioned', calledWhen: 'a partition is assigned' };

/**
 * Calls the method for each partition that this process owns, from the start of the application until its shutdown. The
 * method must end when `partition.signal` aborts, because the next owner waits for that. Its errors are logged, and it is
 * called again after a pause. See `PartitionHandler`.
 *
 * ```ts
 * @Partitioned('orders', { partitions: 64 })
 * async work({ index, signal, fencingToken }: Partition) {
 *   while (!signal.aborted) {
 *     await this.settleOrders(index, fencingToken);
 *     await delay(1_000, undefined, { signal }); // of node:timers/promises
 *   }
 * }
 * ```
 *
 * A method of a request-scoped or transient provider is an error at the start of the application.
 *
 * @throws BadOptionError, MisuseError
 * @publicApi
 */
export function Partitioned(name: string, options: PartitionedOptions) {
  checkArguments('@Partitioned', arguments, ['name', '{ … }']);
  return backgroundMethod<(partition: Partition) => unknown, PartitionedOptions>(
    INFO,
    options,
    RULES,
    (label, settings) => {
      checkKey(name, `name of ${label}`);
      checkPartitioner(settings);
      return ({ partitions }, call) => partitions.join(name, settings, call);
    },
  );
}
