import { foreignText } from '../client/errors.js';
import { RecipeConflictError, SequenceExhaustedError } from './errors.js';

export interface QueueNode {
  readonly name: string;
  /** The text before the sequence number: `lock-` for a mutex. */
  readonly marker: string;
  readonly sequence: number;
}

/** The markers of Curator's recipes. */
export const LOCK = 'lock-';
export const READ = '__READ__';
export const WRITE = '__WRIT__';
export const LEASE = 'lease-';
export const LATCH = 'latch-';

/** How a kind of lock names its znodes and orders them. */
export interface QueueNames {
  /** The marker of the znodes that this recipe creates. */
  readonly marker: string;
  /** The markers of all znodes in the queue. */
  readonly markers: readonly string[];
  /** Returns the znode that must be deleted before `own` holds the lock. */
  readonly nodeAhead: (queue: readonly QueueNode[], own: QueueNode) => QueueNode | undefined;
}

/** A queue of znodes. */
export interface QueueSpec extends QueueNames {
  readonly parent: string;
}

/** The queue of a mutex. */
export const MUTEX_NAMES: QueueNames = { marker: LOCK, markers: [LOCK], nodeAhead: lastBefore };

const LAST_SEQUENCE = 2 ** 31 - 1;
const SEQUENCE_WARNING = 2 ** 30;

const FOREIGN =
  /(?:^|-)(?:lock|lease|latch)-\d+$|__(?:READ|WRIT|lock|rlock)__\d+$|^(?:locks|leases)$/;

const warned = new Set<string>();

/**
 * Returns the znodes among `children` that are in the queue, in no order.
 *
 * @throws RecipeConflictError if another recipe uses the path
 */
export function queueOf(
  { parent, markers }: Pick<QueueSpec, 'parent' | 'markers'>,
  children: readonly string[],
): QueueNode[] {
  const queue: QueueNode[] = [];
  for (const name of children) {
    const node = parse(name, markers);
    if (node) {
      queue.push(node);
    } else if (FOREIGN.test(name)) {
      throw new RecipeConflictError(
        `${parent}/${foreignText(name)} belongs to another recipe, and two recipes on one path do not exclude each other: use another path, or the same recipe everywhere (a key of LockService either exclusively, or with mode 'read' and 'write')`,
      );
    }
  }
  return queue;
}

/**
 * Parses the name of a znode that was just created. The sequence numbers of a parent end at 2^31 - 1: ZooKeeper
 * repeats the last one, so all later znodes would have the same number.
 *
 * @throws SequenceExhaustedError if the last number is reached
 */
export function freshNode({ parent, markers }: QueueSpec, name: string): QueueNode {
  const node = parse(name, markers);
  if (!node || node.sequence >= LAST_SEQUENCE) {
    throw new SequenceExhaustedError(
      `the sequence numbers under ${parent} are used up: delete it while nobody uses it, or use another path`,
    );
  }
  if (node.sequence >= SEQUENCE_WARNING && !warned.has(parent)) {
    warned.add(parent);
    process.emitWarning(
      `half of the sequence numbers under ${parent} are used up; delete it while no client uses it, to start again at 0`,
      { code: 'ZK_SEQUENCE_HALF_USED' },
    );
  }
  return node;
}

/** Sorts a queue. The read znode of a writer has the number of its write znode and follows it. */
export function inOrder(queue: readonly QueueNode[]): QueueNode[] {
  return queue.toSorted((a, b) => a.sequence - b.sequence || (a.marker < b.marker ? 1 : -1));
}

/** Returns the last of the znodes before `own`. */
export function lastBefore(queue: readonly QueueNode[], own: QueueNode): QueueNode | undefined {
  let last: QueueNode | undefined;
  for (const node of queue) {
    if (node.sequence < own.sequence && !(last && last.sequence > node.sequence)) last = node;
  }
  return last;
}

function parse(name: string, markers: readonly string[]): QueueNode | undefined {
  for (const marker of markers) {
    const at = name.lastIndexOf(marker);
    if (at < 0) continue;
    const digits = name.slice(at + marker.length);
    if (/^\d+$/.test(digits)) return { name, marker, sequence: Number(digits) };
  }
  return undefined;
}
