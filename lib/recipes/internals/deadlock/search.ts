import type { Session, ZkClient } from '../../../client/index.js';
import { ProcessState } from '../../../client/process-state.js';
import { heldIn, type Holding, type Link } from '../call-chain.js';
import { lastBefore, type QueueNode, queueOf } from '../node-names.js';
import type { Tenure } from '../tenure.js';
import type { Waiter } from '../wait.js';
import type { Claim } from './waiting-node.js';
import { claimsIn } from './waiting-node.js';
import type { WaitingNode } from './waiting-node.js';

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

/** Where somebody waits. */
export interface Line {
  readonly client: ZkClient;
  readonly waiters: Iterable<LineWaiter>;
  /** Our node in the ensemble's queue, since others were seen before it. */
  waiting: WaitingNode | undefined;
  /** The node by which this process has what is waited for, and will hand it over. */
  readonly behind: string | undefined;
}

export type LineWaiter = Pick<
  Waiter<unknown>,
  'wanted' | 'wait' | 'over' | 'patient' | 'chain' | 'onDeadlock' | 'onOver' | 'reject'
>;

/** Milliseconds: shorter waits are common, and end by themselves. */
const BLOCKED_AFTER = 400;

const clock = new ProcessState(() => ({ latest: 0 }));

/** The present time of this process's clock, and later than at every call before. */
function now(): number {
  const { current } = clock;
  return (current.latest = Math.max(performance.now(), current.latest + 0.001));
}

/** The wait of a call chain that holds something meanwhile, since it was seen first. */
export class NestedWait {
  /** By this process's clock; of no two waits the same. */
  readonly from = now();
  /** By the machine's clock. */
  readonly since = performance.timeOrigin + this.from;
  /** When it is to be looked at next, by this process's clock. */
  due = 0;
  /** The deadlock that was told last, by the names of its nodes. */
  told: string | undefined;

  constructor(
    readonly waiter: LineWaiter,
    readonly line: Line,
    private readonly chain: Link,
  ) {}

  get blocked(): boolean {
    return performance.now() - this.from >= BLOCKED_AFTER;
  }

  get refuse(): boolean {
    return this.waiter.onDeadlock === 'refuse';
  }

  get held(): readonly Holding[] {
    return heldIn(this.chain);
  }

  /** Our node in the queue, as long as it waits there. */
  get waiting(): WaitingNode | undefined {
    const { waiting } = this.line;
    return waiting?.over ? undefined : waiting;
  }

  /** That it holds a node. @param behind where it does not wait by the node that says so */
  claim(node: string, key: string, behind?: string): Claim {
    const { wait } = this.waiter;
    const until = wait === Infinity ? undefined : Math.round(this.since + wait);
    return { node, key, since: this.since, until, refuse: this.refuse || undefined, behind };
  }
}

/** A node that is held by a chain that waits, and where that node can be looked at. */
interface HeldUp {
  readonly claim: Claim;
  readonly tenure: Tenure;
}

/** By the node of this process that they wait behind. */
export type WaitsBehind = ReadonlyMap<string, readonly NestedWait[]>;

export function byNode(waits: readonly NestedWait[]): WaitsBehind {
  const found = new Map<string, NestedWait[]>();
  for (const wait of waits) {
    const { behind } = wait.line;
    if (behind === undefined) continue;
    const others = found.get(behind);
    if (others) others.push(wait);
    else found.set(behind, [wait]);
  }
  return found;
}

/**
 * All nodes of this process that stay until one of `waits` is over: what they hold, what those hold who
 * wait for that here, and so on.
 */
export function heldUpBy(waits: readonly NestedWait[], here: WaitsBehind): Map<string, HeldUp> {
  const heldUp = new Map<string, HeldUp>();
  const queue = waits.map((wait) => ({ wait, behind: undefined as string | undefined }));
  for (const { wait, behind } of queue) {
    for (const { grant, lease } of wait.held) {
      for (const node of grant.tenure.place.nodes) {
        if (heldUp.has(node)) continue;
        heldUp.set(node, { claim: wait.claim(node, lease.key, behind), tenure: grant.tenure });
        for (const other of here.get(node) ?? []) queue.push({ wait: other, behind: node });
      }
    }
  }
  return heldUp;
}

/** The nodes of the locks whose holders are known: mutex, read, write. */
const READ = '__READ__';
const WRITE = '__WRIT__';
const MARKERS = ['lock-', READ, WRITE];

/** Requests of one look. A cycle beyond them is not found. */
const MOST_READS = 256;

/** What the ensemble shows at one time: nothing is asked for twice. */
export class Sight {
  private readonly queues = new Map<string, Promise<readonly QueueNode[]>>();
  private readonly said = new Map<string, Promise<readonly Claim[]>>();
  private reads = 0;

  /** The nodes that have to go before `node` has its turn; none where it is not there. */
  async ahead(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    const own = queue.find(({ name }) => `${parent}/${name}` === node);
    return own ? blockersOf(queue, own).map(({ name }) => `${parent}/${name}`) : [];
  }

  /** The nodes that have their turn only after `node` went. */
  async behind(session: Session, node: string): Promise<string[]> {
    const parent = parentOf(node);
    const queue = await this.queue(session, parent);
    return queue
      .filter((other) => blockersOf(queue, other).some(({ name }) => `${parent}/${name}` === node))
      .map(({ name }) => `${parent}/${name}`);
  }

  /** What a node that waits says that it holds. */
  claims(session: Session, node: string): Promise<readonly Claim[]> {
    return this.once(this.said, `${session.id}${node}`, [], async () =>
      claimsIn((await session.get(node)).data),
    );
  }

  private queue(session: Session, parent: string): Promise<readonly QueueNode[]> {
    return this.once(this.queues, `${session.id}${parent}`, [], async () => {
      const { children } = await session.children(parent);
      return queueOf({ parent, markers: MARKERS }, children);
    });
  }

  private once<T>(
    known: Map<string, Promise<T>>,
    what: string,
    nothing: T,
    read: () => Promise<T>,
  ): Promise<T> {
    let found = known.get(what);
    if (!found) {
      found = ++this.reads > MOST_READS ? Promise.resolve(nothing) : read().catch(() => nothing);
      known.set(what, found);
    }
    return found;
  }
}

/** All who stand before it and exclude it, or exclude one of those. */
function blockersOf(queue: readonly QueueNode[], own: QueueNode): QueueNode[] {
  const excluding = own.marker === READ ? queue.filter(({ marker }) => marker === WRITE) : queue;
  const last = lastBefore(excluding, own);
  return last ? queue.filter((node) => node === last || node.sequence < last.sequence) : [];
}

function parentOf(node: string): string {
  return node.slice(0, node.lastIndexOf('/'));
}
