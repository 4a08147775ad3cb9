import type { Session } from '../../client/index.js';
import type { Claim } from './claims.js';
import { heldUpBy, type NestedWait, type WaitsBehind } from './nested-wait.js';
import type { Sight } from './sight.js';

/*
 * A deadlock is a cycle: a call chain waits behind a node, whose holder waits behind another one, and so on
 * back to what the first one holds. It is looked for from a wait backwards, since a waiter says what it
 * holds and a holder does not say what it waits for:
 *
 *   1. The goal: the nodes that the wait is behind.
 *   2. The nodes that the wait holds up in this process: what its chain holds, and whoever waits for that here.
 *   3. Of each of them: the nodes that wait behind it, and what those say that they hold.
 *   4. When one of these is at the goal, the cycle is closed; otherwise go on from them with 3.
 */

/** A node that is held by one who waits, and the session that sees it. */
export interface Step {
  readonly claim: Claim;
  readonly session: Session;
}

/** Each waits behind the node of the next one, the last behind that of the first. */
export type Cycle = readonly Step[];

interface Found extends Step {
  /** The node that its holder waits behind; undefined: at the goal. */
  readonly next: string | undefined;
}

/** The shortest cycle that the wait is in. */
export async function findCycle(
  wait: NestedWait,
  here: WaitsBehind,
  sight: Sight,
): Promise<Cycle | undefined> {
  const found = new Map<string, Found>();
  for (const [node, { claim, tenure }] of heldUpBy([wait], here)) {
    found.set(node, { claim, session: tenure.place.session, next: claim.behind });
  }
  if (found.size === 0) return undefined;
  const { waiting } = wait;
  const { behind } = wait.line;
  const goal = behind ? [behind] : waiting && (await sight.ahead(waiting.session, waiting.path));
  // It is over, or about to be, or not in the queue yet.
  if (!goal || goal.length === 0 || wait.waiter.over) return undefined;
  for (const node of goal) if (found.has(node)) return cycleFrom(node, found);
  // What is found on the way is gone through too.
  for (const [node, { session }] of found) {
    const waiters = await sight.behind(session, node);
    const said = await Promise.all(waiters.map((waiter) => sight.claims(session, waiter)));
    for (const claim of said.flat()) {
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
    // What a waiter left out, or never said rightly.
    if (!step || cycle.includes(step)) return undefined;
    cycle.push(step);
  }
  return cycle;
}
