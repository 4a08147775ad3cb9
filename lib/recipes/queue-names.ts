import { ForeignNodeError, SequenceExhaustedError } from './errors.js';

/** One queue: where it is, what its nodes are called, and what ours say about us. */
export interface QueueSpec {
  readonly parent: string;
  /** Stands before the sequence number: `lock-` for Curator's mutex. */
  readonly marker: string;
  readonly data: Uint8Array;
}

const LAST_SEQUENCE = 2 ** 31 - 1;
const SEQUENCE_WARNING = 2 ** 30;

const FOREIGN =
  /(?:^|-)(?:lock|lease|latch)-\d+$|__(?:READ|WRIT|lock|rlock)__\d+$|^(?:locks|leases)$/;

const warned = new Set<string>();

/** The place of a node in the queue; undefined for a node that no recipe knows. */
export function sequenceOf(spec: QueueSpec, name: string): number | undefined {
  const at = name.lastIndexOf(spec.marker);
  const digits = at < 0 ? '' : name.slice(at + spec.marker.length);
  if (/^\d+$/.test(digits)) return Number(digits);
  if (FOREIGN.test(name)) {
    throw new ForeignNodeError(
      `${spec.parent}/${name} belongs to another recipe: two recipes on one path do not exclude each other`,
    );
  }
  return undefined;
}

/**
 * The sequence of a node that was just made. ZooKeeper sticks at the last number for ever once a
 * parent that never stood empty reached it, and every node from then on would tie.
 */
export function freshSequenceOf(spec: QueueSpec, name: string): number {
  const sequence = sequenceOf(spec, name);
  if (sequence === undefined || sequence >= LAST_SEQUENCE) {
    throw new SequenceExhaustedError(
      `the sequence numbers under ${spec.parent} are used up: delete it while nobody uses it, or use another path`,
    );
  }
  if (sequence >= SEQUENCE_WARNING && !warned.has(spec.parent)) {
    warned.add(spec.parent);
    process.emitWarning(
      `half of the sequence numbers under ${spec.parent} are used up; they start again once it was deleted`,
      { code: 'ZK_SEQUENCE_HALF_USED' },
    );
  }
  return sequence;
}

/** The node of the queue that stands just before the one with the sequence `own`. */
export function nodeBefore(
  spec: QueueSpec,
  children: readonly string[],
  own: number,
): string | undefined {
  let before: { name: string; sequence: number } | undefined;
  for (const name of children) {
    const sequence = sequenceOf(spec, name);
    if (sequence !== undefined && sequence < own && !(before && before.sequence > sequence)) {
      before = { name, sequence };
    }
  }
  return before?.name;
}
