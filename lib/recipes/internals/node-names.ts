import { ForeignNodeError, SequenceExhaustedError } from '../errors.js';

export interface QueueNode {
  readonly name: string;
  /** What stands before the sequence number: `lock-` for a mutex. */
  readonly marker: string;
  readonly sequence: number;
}

/** One queue: where it is, what its nodes are called, who goes before whom, and what ours say about us. */
export interface QueueSpec {
  readonly parent: string;
  /** Of our own node. */
  readonly marker: string;
  /** Of all nodes that take part in the order. */
  readonly markers: readonly string[];
  readonly data: Uint8Array;
  /** The node that has to go before it is our turn. */
  readonly nodeAhead: (queue: readonly QueueNode[], own: QueueNode) => QueueNode | undefined;
}

/** How a kind of lock names its nodes and orders them, wherever it is. */
export type QueueNames = Omit<QueueSpec, 'parent' | 'data'>;

const LAST_SEQUENCE = 2 ** 31 - 1;
const SEQUENCE_WARNING = 2 ** 30;

const FOREIGN =
  /(?:^|-)(?:lock|lease|latch)-\d+$|__(?:READ|WRIT|lock|rlock)__\d+$|^(?:locks|leases)$/;

const warned = new Set<string>();

/** The nodes among `children` that stand in the queue, in no order. Throws where another recipe is at work. */
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
      throw new ForeignNodeError(
        `${parent}/${name} belongs to another recipe, and two recipes on one path do not exclude each other: use another path`,
      );
    }
  }
  return queue;
}

/**
 * A node that was just made. ZooKeeper sticks at the last number for ever once a parent that never
 * stood empty reached it, and every node from then on would tie.
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
      `half of the sequence numbers under ${parent} are used up; they start again once it was deleted`,
      { code: 'ZK_SEQUENCE_HALF_USED' },
    );
  }
  return node;
}

/** From the first to the last; a node that was made beside another one (a writer's read node) after it. */
export function inOrder(queue: readonly QueueNode[]): QueueNode[] {
  return queue.toSorted((a, b) => a.sequence - b.sequence || (a.marker < b.marker ? 1 : -1));
}

/** The last of the nodes that stand before `own`. */
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
