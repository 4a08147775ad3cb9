import { parentOf } from '../../../client/paths.js';
import type { Session } from '../../../client/index.js';
import { lastBefore, type QueueNode, queueOf } from '../node-names.js';
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
  for (const node of goal) if (found.has(node)) return cycleFrom(node, found);
  // The loop also visits what it adds.
  for (const [node, { session }] of found) {
    const waiters = await snapshot.behind(session, node);
    const claims = await Promise.all(waiters.map((waiter) => snapshot.claimsOf(session, waiter)));
    for (const claim of claims.flat()) {
      if (found.has(claim.node)) continue;
      const behind = claim.behind ?? node;
      found.set(claim.node, { claim: { ...claim, behind }, session });
    }
    for (const end of goal) if (found.has(end)) return cycleFrom(end, found);
  }
  return undefined;
}

function cycleFrom(first: string, found: ReadonlyMap<string, HeldNode>): Cycle | undefined {
  const cycle: HeldNode[] = [];
  for (
    let node: string | undefined = first;
    node !== undefined;
    node = cycle.at(-1)!.claim.behind
  ) {
    const step = found.get(node);
    // A waiter left a claim out, or made a wrong one.
    if (!step || cycle.includes(step)) return undefined;
    cycle.push(step);
  }
  return cycle;
}

/** The znodes of the locks whose holders are known: mutex, read lock, write lock. */
const READ = '__READ__';
const WRITE = '__WRIT__';
const MARKERS = ['lock-', READ, WRITE];

/** The most requests of one snapshot. A cycle beyond them is not found. */
const MAX_READS = 256;

/** The queues and claims of the ensemble at about one time. Nothing is read twice. */
export class Snapshot {
  private readonly queues = new Map<string, Promise<readonly QueueNode[]>>();
  private readonly claims = new Map<string, Promise<readonly Claim[]>>();
  private reads = 0;

  /** Returns the znodes that must be deleted before `node` holds its lock; none if it is not in its queue. */
  async ahead(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    const own = queue.find(({ name }) => `${parent}/${name}` === node);
    return own ? blockersOf(queue, own).map(({ name }) => `${parent}/${name}`) : [];
  }

  /** Returns the znodes that wait until `node` is deleted. */
  async behind(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    return queue
      .filter((other) => blockersOf(queue, other).some(({ name }) => `${parent}/${name}` === node))
      .map(({ name }) => `${parent}/${name}`);
  }

  /** Returns the claims of a znode that waits. */
  claimsOf(session: Session, node: string): Promise<readonly Claim[]> {
    return this.once(this.claims, `${session.id}${node}`, async () =>
      claimsIn((await session.get(node)).data),
    );
  }

  private queue(session: Session, parent: string): Promise<readonly QueueNode[]> {
    return this.once(this.queues, `${session.id}${parent}`, async () => {
      const { children } = await session.children(parent);
      return queueOf({ parent, markers: MARKERS }, children);
    });
  }

  private once<T>(
    known: Map<string, Promise<readonly T[]>>,
    key: string,
    read: () => Promise<readonly T[]>,
  ): Promise<readonly T[]> {
    let found = known.get(key);
    if (!found) {
      // What cannot be read is not in a cycle. The next round reads it again.
      found = ++this.reads > MAX_READS ? Promise.resolve([]) : read().catch(() => []);
      known.set(key, found);
    }
    return found;
  }
}

/** Returns all znodes that must be deleted, directly or transitively, before `own` is granted. */
function blockersOf(queue: readonly QueueNode[], own: QueueNode): QueueNode[] {
  const excluding = own.marker === READ ? queue.filter(({ marker }) => marker === WRITE) : queue;
  const last = lastBefore(excluding, own);
  return last ? queue.filter((node) => node === last || node.sequence < last.sequence) : [];
}
