import type { Session } from '../../../client/index.js';
import type { Claim } from './claims.js';
import { blockedBy, type NestedWait, type WaitsByNode } from './nested-wait.js';
import type { Snapshot } from './snapshot.js';

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

/** A znode that is held by a chain that waits, and a session that can read it. */
export interface Step {
  readonly claim: Claim;
  readonly session: Session;
}

/** Each step waits behind the znode of the next one, and the last behind that of the first. */
export type Cycle = readonly Step[];

interface Found extends Step {
  /** The znode that its holder waits behind; undefined if that is the goal. */
  readonly next: string | undefined;
}

/** Resolves to the shortest cycle that the wait is in; undefined if there is none. */
export async function findCycle(
  wait: NestedWait,
  here: WaitsByNode,
  snapshot: Snapshot,
): Promise<Cycle | undefined> {
  const found = new Map<string, Found>();
  for (const [node, { claim, session }] of blockedBy([wait], here)) {
    found.set(node, { claim, session, next: claim.behind });
  }
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
      found.set(claim.node, { claim, session, next: claim.behind ?? node });
    }
    for (const end of goal) if (found.has(end)) return cycleFrom(end, found);
  }
  return undefined;
}

function cycleFrom(first: string, found: ReadonlyMap<string, Found>): Cycle | undefined {
  const cycle: Found[] = [];
  for (let node: string | undefined = first; node !== undefined; node = cycle.at(-1)!.next) {
    const step = found.get(node);
    // A waiter left a claim out, or made a wrong one.
    if (!step || cycle.includes(step)) return undefined;
    cycle.push(step);
  }
  return cycle;
}
