import type { ZkClient } from '../../client/index.js';
import { ProcessState } from '../../client/process-state.js';
import { heldIn, type Holding, type Link } from '../chain.js';
import type { Tenure } from '../tenure.js';
import type { Waiter } from '../wait.js';
import type { Claim } from './claims.js';
import type { WaitingNode } from './waiting-node.js';

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
