import { parentOf } from '../../client/validation.js';
import type { Session } from '../../client/index.js';
import { inOrder, LOCK, type QueueNode, queueOf, READ, WRITE } from '../node-names.js';
import {
  type HeldNode,
  heldNodesOf,
  type Claim,
  claimsIn,
  type NestedWait,
  type WaitsByNode,
} from './nested-wait.js';

/*
 * A deadlock is a cycle: a call chain waits behind a znode, whose holder waits behind another znode, and so on back to
 * a znode that the first chain holds. The search starts at a wait and goes backwards, because a waiter says what it
 * holds, while a holder does not say what it waits for:
 *
 *   1. The goal: the znodes that the wait is behind.
 *   2. The znodes of this process that stay until the wait is over.
 *   3. For each of them: the znodes that wait behind it, and the claims of those.
 *   4. If one of these is at the goal, the cycle is closed. Otherwise continue from them with 3.
 */

/** Each holder waits behind the znode of the next one, and the last behind that of the first. */
export type Cycle = readonly HeldNode[];

/** Resolves to the shortest cycle that the wait is in; undefined if there is none. */
export async function findCycle(
  wait: NestedWait,
  here: WaitsByNode,
  snapshot: Snapshot,
): Promise<Cycle | undefined> {
  const found = heldNodesOf([wait], here);
  if (found.size === 0) return undefined;
  const { blockedNode, queue } = wait;
  const goal = queue.heldNode
    ? [queue.heldNode]
    : blockedNode && (await snapshot.ahead(blockedNode.session, blockedNode.path));
  // The wait is over, or about to be, or its znode is not in the queue yet.
  if (!goal || goal.length === 0 || wait.waiter.over) return undefined;
  const ends = new Set(goal);
  let end = goal.find((node) => found.has(node));
  // The loop also visits what it adds.
  for (const [node, { session }] of found) {
    if (end !== undefined || found.size > MAX_HELD) break;
    const waiters = await snapshot.behind(session, node);
    const read = waiters.map((waiter) => snapshot.claimsOf(session, waiter));
    const claims = (await Promise.all(read)).flat();
    for (const claim of claims) {
      if (found.has(claim.node)) continue;
      found.set(claim.node, { claim: { ...claim, behind: claim.behind ?? node }, session });
    }
    end = claims.find((claim) => ends.has(claim.node))?.node;
  }
  return end === undefined ? undefined : cycleFrom(end, found);
}

function cycleFrom(first: string, found: ReadonlyMap<string, HeldNode>): Cycle | undefined {
  const cycle: HeldNode[] = [];
  let node: string | undefined = first;
  while (node !== undefined) {
    const step = found.get(node);
    // A waiter left a claim out, or made a wrong one.
    if (!step || cycle.includes(step)) return undefined;
    cycle.push(step);
    node = step.claim.behind;
  }
  return cycle;
}

/** The znodes of the locks whose holders are known: mutex, read lock, write lock. */
const MARKERS = [LOCK, READ, WRITE];

// A cycle beyond these limits is not found.
/** The most requests of one snapshot. */
const MAX_READS = 256;
/** The most znodes that one search finds to be held. */
const MAX_HELD = 1024;
/** The most znodes of a queue. */
const MAX_QUEUE = 10_000;

/** A queue in its order. */
interface OrderedQueue {
  /** The paths of its znodes. */
  readonly paths: readonly string[];
  readonly indexes: ReadonlyMap<string, number>;
  /** For each znode, the index of the last znode that must be deleted before it is granted; -1 if there is none. */
  readonly last: readonly number[];
}

const NO_QUEUE: OrderedQueue = { paths: [], indexes: new Map(), last: [] };

/** The queues and claims of the ensemble at about one time. Nothing is read twice. */
export class Snapshot {
  private readonly queues = new Map<string, Promise<OrderedQueue>>();
  private readonly claims = new Map<string, Promise<readonly Claim[]>>();
  private reads = 0;

  /** Returns the znodes that must be deleted before `node` holds its lock; none if it is not in its queue. */
  async ahead(session: Session, node: string): Promise<readonly string[]> {
    const { paths, indexes, last } = await this.queue(session, parentOf(node));
    const index = indexes.get(node);
    return index === undefined ? [] : paths.slice(0, last[index]! + 1);
  }

  /** Returns the first znodes that wait until `node` is deleted: as many as a snapshot could read. */
  async behind(session: Session, node: string): Promise<readonly string[]> {
    const { paths, indexes, last } = await this.queue(session, parentOf(node));
    const waiters: string[] = [];
    const index = indexes.get(node) ?? paths.length;
    for (let other = index + 1; other < paths.length && waiters.length < MAX_READS; other++) {
      if (last[other]! >= index) waiters.push(paths[other]!);
    }
    return waiters;
  }

  /** Returns the claims of a znode that waits. */
  claimsOf(session: Session, node: string): Promise<readonly Claim[]> {
    return this.once(this.claims, `${session.id}${node}`, [], async () =>
      claimsIn((await session.get(node)).data),
    );
  }

  private queue(session: Session, parent: string): Promise<OrderedQueue> {
    return this.once(this.queues, `${session.id}${parent}`, NO_QUEUE, async () => {
      const { children } = await session.children(parent);
      if (children.length > MAX_QUEUE) return NO_QUEUE;
      return orderedQueue(parent, queueOf({ parent, markers: MARKERS }, children));
    });
  }

  private once<T>(
    known: Map<string, Promise<T>>,
    key: string,
    none: T,
    read: () => Promise<T>,
  ): Promise<T> {
    let found = known.get(key);
    if (!found) {
      // What cannot be read is not in a cycle. The next round reads it again.
      found = ++this.reads > MAX_READS ? Promise.resolve(none) : read().catch(() => none);
      known.set(key, found);
    }
    return found;
  }
}

function orderedQueue(parent: string, queue: readonly QueueNode[]): OrderedQueue {
  const nodes = inOrder(queue);
  const paths = nodes.map(({ name }) => `${parent}/${name}`);
  const last: number[] = [];
  /** The index of the first znode with the current sequence number, and of the last writer before it. */
  let [first, writer] = [0, -1];
  for (const [index, { marker, sequence }] of nodes.entries()) {
    // A writer and its read znode have the same number, and do not wait for each other.
    if (sequence > nodes[first]!.sequence) {
      for (; first < index; first++) if (nodes[first]!.marker === WRITE) writer = first;
    }
    last.push(marker === READ ? writer : first - 1);
  }
  return { paths, indexes: new Map(paths.map((path, index) => [path, index])), last };
}
