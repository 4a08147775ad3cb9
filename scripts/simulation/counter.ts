import { setTimeout as sleep } from 'node:timers/promises';
import type { History, Incarnation } from './history.js';
import { connect, ROOT } from './jobs.js';
import { checkLeft } from './properties.js';
import { runWorkload } from './run-seed.js';
import { type Setting, withoutNest } from './setting.js';
import type { RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of a counter: the callers of all processes increase one counter by increment(), add() and compareAndSet().
 * The value never falls, so each change takes an interval of values of its own.
 */

type DistributedAtomicLong = import('nestjs-zookeeper/coordination').DistributedAtomicLong;
type DistributedAtomicLongOptions = NonNullable<
  ConstructorParameters<typeof import('nestjs-zookeeper/coordination').DistributedAtomicLong>[2]
>;
type World = import('nestjs-zookeeper/testing').World;

const PATH = `${ROOT}/counter`;
const LOCK_PATH = `${ROOT}/counter-lock`;
/** The greatest number of callers in each process. They share one object. */
const MAX_CALLERS = 4;
/** The average number of milliseconds between two changes of a caller. */
const PAUSE = 40;
const MAX_DELTA = 1_000;
/** The probability that the reply to the next write is lost, until the last fault. */
const LOST_REPLY_PROBABILITY = 0.02;

export interface Change {
  readonly incarnation: Incarnation;
  readonly delta: bigint;
  readonly asked: number;
  settled: number;
  /**
   * `none`: a compareAndSet() found another value. `maybe`: the library does not know whether it was applied. `refused`: the
   * library states that it was not applied.
   */
  outcome: 'pending' | 'applied' | 'none' | 'maybe' | 'refused';
  /** The value before it. */
  before: bigint;
}

interface AppliedResult {
  readonly succeeded?: boolean;
  readonly preValue: bigint;
  readonly postValue: bigint;
}

/** Runs processes that change one counter under the faults of one seed and checks what happened. */
export const runCounter: RunSeed = (library, options) => {
  const changes: Change[] = [];
  return runWorkload(
    {
      adjust: withoutNest,
      start: (context) => startCallers(changes, context),
      workAfterRecovery: 500,
      checkEnd: (...end) => checkCounter(changes, ...end),
    },
    library,
    options,
  );
};

async function startCallers(changes: Change[], context: JobContext): Promise<Program> {
  const { acceptsWork, library, random } = context;
  const client = await connect(context);
  const options: DistributedAtomicLongOptions = { lockPath: LOCK_PATH };
  if (random.chance(0.5)) options.retry = { type: 'fixed', delay: 1, maxRetries: 1 };
  const counter = new library.coordination.DistributedAtomicLong(client, PATH, options);
  let latest = 0n;
  const loop = async () => {
    while (acceptsWork()) {
      await sleep(random.between(0, 2 * PAUSE));
      const kind = random.pick(['increment', 'add', 'compareAndSet'] as const);
      latest = (await changeCounter(counter, kind, latest, changes, context)) ?? latest;
    }
  };
  const callers = Array.from({ length: random.whole(1, MAX_CALLERS) }, loop);
  return {
    client,
    finished: Promise.all(callers).then(() => {}),
    leaveElections: async () => {},
    close: () => client.close(),
  };
}

/** Changes the counter once. Resolves to the value after it, if it is known. */
export async function changeCounter(
  counter: DistributedAtomicLong,
  kind: 'increment' | 'add' | 'compareAndSet',
  latest: bigint,
  changes: Change[],
  { history, incarnation, library, random, setting, world }: JobContext,
): Promise<bigint | undefined> {
  const delta = kind === 'increment' ? 1n : BigInt(random.whole(1, MAX_DELTA));
  const entry: Change = {
    ...{ incarnation, delta, asked: world.now, settled: Infinity },
    ...{ outcome: 'pending', before: 0n },
  };
  changes.push(entry);
  history.operations++;
  const losesReply = world.now < setting.faultsUntil && random.chance(LOST_REPLY_PROBABILITY);
  const cancel = losesReply ? world.loseReply('setData', incarnation.session) : () => {};
  try {
    const values: AppliedResult =
      kind === 'increment'
        ? await counter.increment()
        : kind === 'add'
          ? await counter.add(delta)
          : await counter.compareAndSet(latest, latest + delta);
    const { succeeded = true, preValue, postValue } = values;
    entry.outcome = succeeded ? 'applied' : 'none';
    entry.before = preValue;
    const isWrong = succeeded ? postValue - preValue !== delta : preValue === latest;
    if (isWrong) {
      const why = `${kind} by ${delta} from ${latest} returned ${preValue} and ${postValue}`;
      history.recordViolation('a change returns the value before and after it', why);
    }
    return postValue;
  } catch (error) {
    const { ConnectionError, CoordinationError, ShuttingDownError } = library.recipes;
    const isUnknown = error instanceof ConnectionError && error.maybeApplied;
    entry.outcome = isUnknown || error instanceof ShuttingDownError ? 'maybe' : 'refused';
    const isUnexpected = !(error instanceof CoordinationError) || setting.faultsUntil === 0;
    if (isUnexpected) history.recordViolation('no change fails without a fault', String(error));
    return undefined;
  } finally {
    entry.settled = world.now;
    cancel();
  }
}

/** Checks that the value is the sum of the changes that were applied, and that the processes leave nothing. */
export async function checkCounter(
  changes: readonly Change[],
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  for (const { incarnation, outcome, asked } of changes) {
    if (outcome !== 'pending' || incarnation.ended < Infinity) continue;
    const why = `${incarnation.name} has waited for a change since ${asked.toFixed(1)} ms`;
    history.recordViolation('no change waits forever', why);
  }
  checkValues(changes, world, history);
  checkRefusals(changes, history);
  await checkLeft(world, history, workload, setting);
  for (const { path } of world.children(PATH)) {
    history.recordViolation('no znode is left', `${path} is left`);
  }
}

/** Checks that a compareAndSet() that found another value found one of the time of the call. */
function checkRefusals(changes: readonly Change[], history: History): void {
  for (const { before, asked, incarnation, outcome } of changes) {
    if (outcome !== 'none') continue;
    const later = changes.find(
      (other) =>
        other.outcome === 'applied' && other.settled < asked && other.before + other.delta > before,
    );
    if (!later) continue;
    const why = `${incarnation.name} found ${before} after ${later.before + later.delta} was confirmed`;
    history.recordViolation('a compareAndSet finds the current value', why);
  }
}

/** Checks that the values between and after the changes that were applied are those of changes without a reply. */
function checkValues(changes: readonly Change[], world: World, history: History): void {
  const applied = changes
    .filter(({ outcome }) => outcome === 'applied')
    .sort((a, b) => Number(a.before - b.before));
  let value = 0n;
  let unexplained = 0n;
  let lastAsked = 0;
  const unknown = changes.filter(({ outcome }) => outcome === 'maybe' || outcome === 'pending');
  const explain = (next: bigint, what: string) => {
    const gap = next - value;
    if (gap === 0n) return;
    if (gap < 0n) {
      const why = `${what}, but a change before it resulted in ${value}`;
      history.recordViolation('a change that resolved was applied once', why);
      return;
    }
    unexplained += gap;
    if (isSumOf(unexplained, unknown)) return;
    const deltas = unknown.map(({ delta }) => delta).join(', ');
    const why = `${what}, of which ${unexplained} is not the sum of changes that may have been applied (${deltas})`;
    history.recordViolation('a change that was refused was not applied', why);
    unexplained = 0n;
  };
  for (const { incarnation, delta, before, asked, settled } of applied) {
    explain(before, `${incarnation.name} added ${delta} to ${before}`);
    value = before + delta;
    if (lastAsked > settled) {
      const why = `the change to ${value} resolved at ${settled}, and one to a lower value began at ${lastAsked}`;
      history.recordViolation('values rise in real-time order', why);
    }
    lastAsked = Math.max(lastAsked, asked);
  }
  const znode = world.znodes(ROOT).find(({ path }) => path === PATH);
  const end = znode ? znode.data.readBigInt64BE() : 0n;
  explain(end, `the counter is ${end} at the end`);
}

/** Whether a value is the sum of some changes. */
function isSumOf(value: bigint, changes: readonly Change[]): boolean {
  let sums = new Set([0n]);
  for (const { delta } of changes) {
    sums = new Set([...sums].flatMap((sum) => (sum + delta > value ? sum : [sum, sum + delta])));
  }
  return sums.has(value);
}
