import {
  checkOptions,
  checkValue,
  FUNCTION,
  milliseconds,
  rule,
  type Rules,
  UNCHECKED,
} from '../../client/index.js';
import { checkMemberId, uniqueMemberId } from './member-node.js';

/**
 * The options of a {@link Partitioner}.
 *
 * @publicApi
 */
export interface PartitionerOptions {
  /** The number of partitions, from 1 to 10,000. The same in all processes. */
  partitions: number;
  /**
   * The name of this member: a part of a path, unique among the members, at most 255 bytes. Default: the host name, the
   * process id and a random number.
   */
  id?: string | undefined;
  /**
   * Milliseconds between a change of the members and the next assignment. Several changes within it cause one
   * assignment, and the partitions of a member that leaves and joins again within it, with the same id, do not move. The
   * partitions of a member that is gone have no owner meanwhile. Default 1000.
   */
  rebalanceDelay?: number | undefined;
  /**
   * Milliseconds that a handler may take after the signal of its partition has aborted. Then an error is reported, and
   * `close()` stops waiting. The partition stays locked until the handler settles or the session ends. A shutdown ends the
   * session. Default 30,000.
   */
  stopTimeout?: number | undefined;
  /**
   * Called with each error of a handler and the index of its partition, and when joining or acquiring a partition fails.
   * The member retries every second. Default: a process warning.
   */
  onError?: ((error: Error, partition?: number) => void) | undefined;
}

const MAX_PARTITIONS = 10_000;

const partitionsRule = rule(
  `a whole number from 1 to ${MAX_PARTITIONS}`,
  (value: number) => Number.isInteger(value) && value >= 1 && value <= MAX_PARTITIONS,
);

export const PARTITIONER_RULES: Rules<PartitionerOptions> = {
  partitions: partitionsRule,
  id: UNCHECKED,
  rebalanceDelay: milliseconds(0),
  stopTimeout: milliseconds(0),
  onError: FUNCTION,
};

/** Returns the options with their defaults. */
export function checkPartitioner(options: PartitionerOptions) {
  checkOptions(options, PARTITIONER_RULES);
  const { partitions, id = uniqueMemberId(), rebalanceDelay = 1000, onError } = options;
  const { stopTimeout = 30_000 } = options;
  checkValue('partitions', partitions, partitionsRule);
  return { partitions, id: checkMemberId(id), rebalanceDelay, stopTimeout, onError };
}
