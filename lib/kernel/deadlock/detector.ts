import { setTimeout as pause } from 'node:timers/promises';
import { ProcessState } from '../../client/process-state.js';
import { runDetached } from '../call-chain.js';
import type { NodeData } from '../node-data.js';
import {
  heldNodesOf,
  byHeldNode,
  type ChainedWaiter,
  type Claim,
  NestedWait,
  type WaitQueue,
  withClaims,
} from './nested-wait.js';
import { describe, publish } from './report.js';
import { type Cycle, findCycle, Snapshot } from './search.js';

/*
 * Finds deadlocks from the waits of this process. Only the wait of a call chain that holds a lock can be part of one.
 * After 400 ms of waiting, our znode in the queue gets claims (nested-wait.ts), and the claims of other znodes are
 * searched for a cycle. A cycle is read a second time before it is reported.
 */

/** Milliseconds between two rounds. One timer serves all waits. */
const ROUND_INTERVAL = 200;
/** Milliseconds. A wait is searched in each round for its first 5 s, then every 600 ms. */
const FREQUENT_FOR = 5000;
const SELDOM_INTERVAL = 600;
/** The most searches in one round. The next rounds do the rest. */
const MAX_SEARCHES = 64;
/** Milliseconds. A waiter that has just ended has withdrawn its claims by then. */
const CONFIRM_AFTER = 100;

interface Detector {
  /** The queues in which chains wait that hold a lock. */
  readonly queues: Set<WaitQueue>;
  readonly waits: Map<ChainedWaiter, NestedWait>;
  /** Our znodes with claims, with the data that they had before. */
  readonly claiming: Map<NodeData, Uint8Array>;
  timer: NodeJS.Timeout | undefined;
}

const detectorOfProcess = new ProcessState<Detector>(() => ({
  queues: new Set(),
  waits: new Map(),
  claiming: new Map(),
  timer: undefined,
}));

/** Examines a queue in which a call chain that holds a lock begins to wait. */
export function watchForDeadlock(queue: WaitQueue): void {
  const detector = detectorOfProcess.current;
  detector.queues.add(queue);
  detector.timer ??= runDetached(() => setTimeout(() => void round(), ROUND_INTERVAL).unref());
}

async function round(): Promise<void> {
  const detector = detectorOfProcess.current;
  const { queues, claiming } = detector;
  for (const queue of queues) if (!examine(queue)) queues.delete(queue);
  const blocked = blockedWaits();
  for (const { blockedNode } of blocked) {
    if (blockedNode && !claiming.has(blockedNode)) claiming.set(blockedNode, blockedNode.data);
  }
  const written = await writeClaims();
  const now = performance.now();
  const due = blocked.filter((wait) => wait.due <= now).sort((a, b) => a.due - b.due);
  const snapshot = new Snapshot();
  await Promise.all(due.slice(0, MAX_SEARCHES).map((wait) => search(wait, snapshot)));
  const next = () => void round();
  // A claim that could not be withdrawn would show others a deadlock that does not exist.
  const continues = queues.size > 0 || !written;
  detector.timer = continues ? setTimeout(next, ROUND_INTERVAL).unref() : undefined;
}

/** Registers the waits of a queue. Returns false if no chain in it holds a lock any more. */
function examine(queue: WaitQueue): boolean {
  const { waits } = detectorOfProcess.current;
  let nested = false;
  for (const waiter of queue.waiters) {
    const { chain, request } = waiter;
    if (!chain || waiter.over || request.wait === 0) continue;
    nested = true;
    if (waits.has(waiter)) continue;
    const wait = new NestedWait(waiter, queue, chain);
    waits.set(waiter, wait);
    waiter.onOver = () => {
      waits.delete(waiter);
      // Before its chain can release anything.
      if (wait.blocked) void writeClaims();
    };
  }
  return nested;
}

function blockedWaits(): NestedWait[] {
  return [...detectorOfProcess.current.waits.values()].filter(
    ({ blocked, waiter }) => blocked && !waiter.over,
  );
}

/**
 * Writes into each of our waiting znodes what its waiters hold by now. Resolves to false if that must be tried again.
 */
async function writeClaims(): Promise<boolean> {
  const { claiming } = detectorOfProcess.current;
  const waits = blockedWaits();
  const here = byHeldNode(waits);
  const written = await Promise.all(
    [...claiming].map(([node, data]) => {
      if (!node.waiting) return claiming.delete(node);
      const waiting = waits.filter(({ blockedNode }) => blockedNode === node);
      const claims: Claim[] = [];
      for (const { claim } of heldNodesOf(waiting, here).values()) claims.push(claim);
      return node.update(withClaims(data, claims));
    }),
  );
  return !written.includes(false);
}

async function search(wait: NestedWait, snapshot: Snapshot): Promise<void> {
  const now = performance.now();
  wait.due = now + (now - wait.from < FREQUENT_FOR ? 0 : SELDOM_INTERVAL);
  const suspected = await findCycle(wait, byHeldNode(blockedWaits()), snapshot);
  if (!suspected || wait.reported === idOf(suspected)) return;
  await pause(CONFIRM_AFTER, undefined, { ref: false });
  const cycle = await findCycle(wait, byHeldNode(blockedWaits()), new Snapshot());
  if (!cycle || idOf(cycle) !== idOf(suspected) || wait.reported === idOf(cycle)) return;
  await report(wait, cycle);
}

async function report({ queue, waiter }: NestedWait, cycle: Cycle): Promise<void> {
  const claims = cycle.map((step) => step.claim);
  const ours = blockedWaits().filter((wait) => claims.some((claim) => wait.made(claim)));
  const here = claims.filter((claim) => ours.some((wait) => wait.made(claim)));
  // Before the next await, so that only one of our waits reports the cycle.
  for (const wait of ours) wait.reported = idOf(cycle);
  // If the holders cannot be read at the moment, the next round searches again.
  const deadlock = await describe(queue.spec.client, cycle, here).catch(() => undefined);
  if (deadlock && !waiter.over) return publish(deadlock);
  for (const wait of ours) wait.reported = undefined;
}

/** Returns the same text wherever the cycle begins. */
function idOf(cycle: Cycle): string {
  return cycle
    .map(({ claim }) => `${claim.node} ${claim.since}`)
    .sort()
    .join('\n');
}
