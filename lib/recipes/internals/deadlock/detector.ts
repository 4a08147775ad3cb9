import { setTimeout as pause } from 'node:timers/promises';
import { ProcessState } from '../../../client/process-state.js';
import { type Link, runDetached } from '../call-chain.js';
import { DeadlockError } from '../../errors.js';
import type { AcquireOptions } from '../../lease.js';
import type { Claim } from './waiting-node.js';
import { byNode, heldUpBy, type Line, type LineWaiter, NestedWait } from './search.js';
import { describe, tell } from './report.js';
import { type Cycle, findCycle } from './search.js';
import { Sight } from './search.js';
import type { WaitingNode } from './waiting-node.js';

export type { Line } from './search.js';

/*
 * Deadlocks, found by those who are in them. Only a wait of a call chain that holds something can be in one,
 * and only one that has lasted for a while is looked at: then our node in the queue says what those who wait
 * by it hold, and what others said is searched for a cycle. What is found is read a second time before
 * anybody is told.
 */

/** Milliseconds between two rounds. One timer serves all waits. */
const EVERY = 200;
/** Milliseconds that a wait is looked at in each round, and then as often as this. */
const OFTEN_FOR = 5000;
const SELDOM = 600;
/** Waits that are searched from in one round; the others come in the next ones. */
const MOST_SEARCHES = 64;
/** Milliseconds: what a waiter says that has just ended is taken back by then. */
const CONFIRM_AFTER = 100;

interface Detector {
  /** Where chains wait that hold something. */
  readonly lines: Set<Line>;
  readonly waits: Map<LineWaiter, NestedWait>;
  /** Nodes of ours that say what those who wait by them hold. */
  readonly claiming: Set<WaitingNode>;
  timer: NodeJS.Timeout | undefined;
}

const ofProcess = new ProcessState<Detector>(() => ({
  lines: new Set(),
  waits: new Map(),
  claiming: new Set(),
  timer: undefined,
}));

/**
 * Called each time anybody waits: what it costs, each nested lock costs.
 *
 * @param chain that waits
 */
export function lookAfter(
  waiter: LineWaiter,
  line: Line,
  onDeadlock: AcquireOptions['onDeadlock'],
  chain: Link | undefined,
): void {
  if (!chain || !waiter.patient) return;
  waiter.chain = chain;
  waiter.onDeadlock = onDeadlock;
  const detector = ofProcess.current;
  detector.lines.add(line);
  detector.timer ??= runDetached(() => setTimeout(() => void round(), EVERY).unref());
}

async function round(): Promise<void> {
  const detector = ofProcess.current;
  const { lines, claiming } = detector;
  for (const line of lines) if (!see(line)) lines.delete(line);
  const blocked = blockedWaits();
  for (const { waiting } of blocked) if (waiting) claiming.add(waiting);
  await claim();
  const now = performance.now();
  const due = blocked.filter((wait) => wait.due <= now).sort((a, b) => a.due - b.due);
  const sight = new Sight();
  await Promise.all(due.slice(0, MOST_SEARCHES).map((wait) => look(wait, sight)));
  detector.timer = lines.size > 0 ? setTimeout(() => void round(), EVERY).unref() : undefined;
}

/** False where no chain that holds anything is left. */
function see(line: Line): boolean {
  const { waits } = ofProcess.current;
  let nested = false;
  for (const waiter of line.waiters) {
    const { chain } = waiter;
    if (!chain || waiter.over) continue;
    nested = true;
    if (waits.has(waiter)) continue;
    const wait = new NestedWait(waiter, line, chain);
    waits.set(waiter, wait);
    waiter.onOver = () => {
      waits.delete(waiter);
      // Before its chain can give anything back.
      if (wait.blocked) void claim();
    };
  }
  return nested;
}

function blockedWaits(): NestedWait[] {
  return [...ofProcess.current.waits.values()].filter(
    ({ blocked, waiter }) => blocked && !waiter.over,
  );
}

/** Says of each node what it holds up by now. */
async function claim(): Promise<void> {
  const { claiming } = ofProcess.current;
  const blocked = blockedWaits();
  const behind = byNode(blocked);
  await Promise.all(
    [...claiming].map((node) => {
      if (node.over) return claiming.delete(node);
      const here = blocked.filter(({ waiting }) => waiting === node);
      const claims: Claim[] = [];
      for (const held of heldUpBy(here, behind).values()) claims.push(held.claim);
      return node.claim(claims);
    }),
  );
}

async function look(wait: NestedWait, sight: Sight): Promise<void> {
  const now = performance.now();
  wait.due = now + (now - wait.from < OFTEN_FOR ? 0 : SELDOM);
  const suspected = await findCycle(wait, byNode(blockedWaits()), sight);
  if (!suspected || wait.told === idOf(suspected)) return;
  await pause(CONFIRM_AFTER, undefined, { ref: false });
  const cycle = await findCycle(wait, byNode(blockedWaits()), new Sight());
  if (!cycle || idOf(cycle) !== idOf(suspected) || wait.told === idOf(cycle)) return;
  await report(wait, cycle);
}

async function report({ line, waiter }: NestedWait, cycle: Cycle): Promise<void> {
  const claims = cycle.map((step) => step.claim);
  const ofWait = (wait: NestedWait) => claims.filter(({ since }) => since === wait.since);
  const ours = blockedWaits().filter((wait) => ofWait(wait).length > 0);
  // Here, so that only one of ours tells.
  for (const wait of ours) wait.told = idOf(cycle);
  const refused = victimOf(claims);
  const here = new Set(ours.flatMap(ofWait));
  const deadlock = await describe(
    line.client,
    cycle,
    (node) => [...here].some((claim) => claim.node === node),
    (node) => refused?.node === node,
  ).catch(() => undefined);
  if (!deadlock || waiter.over) {
    for (const wait of ours) wait.told = undefined;
    return;
  }
  tell(deadlock);
  const victim = ours.find((wait) => wait.since === refused?.since);
  if (!victim) return;
  const { key, noun } = victim.waiter.wanted;
  const message = `the wait for ${noun} ${JSON.stringify(key)} was refused. ${deadlock.message}`;
  victim.waiter.reject(new DeadlockError(message, deadlock.cycle, { key }));
}

/** The same for all who see the cycle: of those that may be refused, the wait that began last. */
function victimOf(claims: readonly Claim[]): Claim | undefined {
  return claims
    .filter(({ refuse }) => refuse)
    .reduce<Claim | undefined>(
      (last, claim) => (last && before(claim, last) ? last : claim),
      undefined,
    );
}

function before(a: Claim, b: Claim): boolean {
  return a.since < b.since || (a.since === b.since && a.node < b.node);
}

/** The same for all who see it, wherever they begin. */
function idOf(cycle: Cycle): string {
  return cycle
    .map(({ claim }) => `${claim.node} ${claim.since}`)
    .sort()
    .join('\n');
}
