import { OpCode } from '../../protocol/index.js';
import { Digest } from './digest.js';
import { requestType } from './digest.js';
import {
  checkNames,
  checkNumber,
  checkOptions,
  checkType,
  formatValue,
  OPTION_NAMES,
  type SimulationOptions,
} from './options.js';
import type { Event, Message } from './scheduler.js';
import { simulate, SimulationError } from './simulate.js';
import { type ExploredFault, type Moment, standardFaults } from './standard-faults.js';
import type { World } from './world.js';

/**
 * The faults of one run: their names, and the moments at which they are injected.
 *
 * @publicApi
 */
export type FaultPlan = readonly (readonly [fault: string, moment: number])[];

/**
 * Options of {@link explore}.
 *
 * @publicApi
 */
export interface ExploreOptions extends SimulationOptions {
  /** The faults to inject. Default: {@link standardFaults} for the processes and servers of the scenario. */
  faults?: readonly ExploredFault[] | undefined;
  /** Whether each pair of faults is injected too, the second one at each later moment. Default false. */
  pairs?: boolean | undefined;
  /** Runs this plan only. Default: all plans. */
  plan?: FaultPlan | undefined;
  /** Runs one of several parts, so that several Node processes can share the work. Default: everything. */
  shard?: { readonly index: number; readonly count: number } | undefined;
  /** The number of seconds of real time after which no further run starts. Default: no limit. */
  maxSeconds?: number | undefined;
}

/**
 * A run that failed.
 *
 * @publicApi
 */
export interface ExploreViolation {
  readonly plan: FaultPlan;
  /** The first line of the message of the error. */
  readonly message: string;
  readonly error: SimulationError;
}

/**
 * The result of {@link explore}.
 *
 * @publicApi
 */
export interface ExploreResult {
  /** The number of moments of the run without a fault. */
  readonly moments: number;
  readonly faults: number;
  /** The number of runs, including the one without a fault. */
  readonly schedules: number;
  /**
   * A digest for each run that differs from the others in its messages, their order or the outcome; keep-alives and times
   * do not count.
   */
  readonly behaviours: ReadonlySet<string>;
  /** The number of combinations of faults and moments that were not run, by the rule that says why. */
  readonly skipped: {
    /** The fault commutes with the event of the moment; see `ExploredFault.applies`. */
    readonly commuting: number;
    /** A keep-alive arrives, and since the last one nothing else was sent or noted. */
    readonly repeated: number;
    /** The fault has no effect; see `ExploredFault.hasEffect`. */
    readonly ineffective: number;
    /** The time was over. */
    readonly late: number;
  };
  /** The runs that failed. Only the first 100 are kept; `violationCount` counts all. */
  readonly violations: readonly ExploreViolation[];
  readonly violationCount: number;
  /** Sixteen hexadecimal digits. Two explorations with the same runs and outcomes have the same digest. */
  readonly digest: string;
}

const MAX_VIOLATIONS = 100;
const NAMES = new Set([...OPTION_NAMES, 'faults', 'pairs', 'plan', 'shard', 'maxSeconds']);
const OPERATION_NAMES = new Map<number, string>(
  Object.entries(OpCode).map(([name, type]) => [type, name]),
);

/** One run of the scenario. */
interface Run {
  /** The moments from the last fault of the plan on; without a plan, all moments. */
  readonly moments: readonly ExploredMoment[];
  readonly behaviour: string;
  readonly digest: string;
  readonly failure: SimulationError | undefined;
  readonly processes: readonly string[];
  readonly servers: readonly string[];
  readonly sessionTimeout: number;
}

interface ExploredMoment extends Moment {
  silent: boolean;
  /** Whether it is before the arrival of a keep-alive, as an earlier moment after which nothing has happened. */
  readonly repeated: boolean;
  /** The faults that have no effect. */
  readonly ineffective: ReadonlySet<ExploredFault>;
}

/**
 * Runs a scenario once without a fault, and then once with each fault at each moment of that run. With `pairs`, each
 * such run is continued with each second fault at each of its later moments. A scenario is a function as for
 * {@link simulate}; it fails by throwing. It should be small, because the number of runs rises with the number of its
 * events, and with the square of that for pairs.
 *
 * ```ts
 * const { violations } = await explore({ seed: 1 }, async (world) => {
 *   const shops = ['a', 'b'].map((name) => world.process(name));
 *   // Each shop sells under a lock, and tries again after an error. Then the scenario checks what was sold.
 * });
 * expect(violations).toEqual([]);
 * ```
 *
 * `world.exploring = false` excludes a part of the scenario, such as the check at its end.
 *
 * @throws SimulationError if the scenario fails without a fault; TypeError or RangeError for a wrong option or a plan
 *   that names an unknown fault or a moment that the run does not have
 * @publicApi
 */
export async function explore(
  { faults, pairs = false, plan, shard, maxSeconds = Infinity, ...options }: ExploreOptions,
  scenario: (world: World) => unknown,
): Promise<ExploreResult> {
  checkNames('explore()', { faults, pairs, plan, shard, maxSeconds, ...options }, NAMES);
  checkType('the scenario', scenario, 'function');
  checkNumber('maxSeconds', maxSeconds, 0, Infinity);
  const { index: shardIndex, count: shardCount } = checkShard(shard);
  const checked = checkOptions(options, 1);
  const all = faults ?? standardFaults(await runPlan(checked, scenario, [], new Map(), false));
  const known = new Map(all.map((fault) => [fault.name, fault]));
  const twice = all.find((fault) => known.get(fault.name) !== fault);
  if (twice) throw new TypeError(`explore: two faults have the same name: ${twice.name}`);
  const run = (each: FaultPlan, observes: boolean) =>
    runPlan(checked, scenario, each, known, observes);
  const clean = await run([], true);
  if (clean.failure) throw clean.failure;

  const deadline = performance.now() + maxSeconds * 1000;
  const behaviours = new Set<string>();
  const skipped = { commuting: 0, repeated: 0, ineffective: 0, late: 0 };
  const violations: ExploreViolation[] = [];
  let violationCount = 0;
  let schedules = 0;
  // A sum, so that the parts of an exploration can be added in any order.
  let digest = 0n;
  const count = (each: FaultPlan, { behaviour, failure, digest: ofRun }: Run) => {
    schedules++;
    behaviours.add(behaviour);
    digest = BigInt.asUintN(64, digest + BigInt(`0x${ofRun}`));
    if (!failure) return;
    violationCount++;
    if (violations.length === MAX_VIOLATIONS) return;
    const message = failure.message.split('\n', 1)[0]!;
    violations.push({ plan: each, message, error: failure });
  };

  if (plan) {
    count(plan, await run(checkPlan(plan, known), false));
  } else {
    if (shardIndex === 0) count([], clean);
    let number = 0;
    const singles = candidates(clean.moments, all, skipped, shardIndex === 0);
    for (const first of singles) {
      if (number++ % shardCount !== shardIndex) continue;
      if (performance.now() > deadline) {
        skipped.late++;
        continue;
      }
      const single = await run([first], pairs);
      count([first], single);
      // A second fault could only add to a violation.
      if (!pairs || single.failure) continue;
      // Two faults before the same event commute, so the order of the list is enough.
      const position = all.indexOf(known.get(first[0])!);
      const later = candidates(single.moments, all, skipped, true).filter(
        ([name, moment]) => moment > first[1] || all.indexOf(known.get(name)!) > position,
      );
      for (const second of later) {
        if (performance.now() > deadline) skipped.late++;
        else count([first, second], await run([first, second], false));
      }
    }
  }
  return {
    moments: clean.moments.length,
    faults: all.length,
    schedules,
    behaviours,
    skipped,
    violations,
    violationCount,
    digest: digest.toString(16).padStart(16, '0'),
  };
}

/** Returns the faults and moments that are worth a run, and counts the others. */
function candidates(
  moments: readonly ExploredMoment[],
  faults: readonly ExploredFault[],
  skipped: { commuting: number; repeated: number; ineffective: number },
  counts: boolean,
): (readonly [string, number])[] {
  return moments.flatMap((moment) => {
    const applying = faults.filter(({ applies }) => applies?.(moment) ?? true);
    const effective = applying.filter((fault) => !moment.ineffective.has(fault));
    if (counts) {
      skipped.commuting += faults.length - applying.length;
      skipped.ineffective += applying.length - effective.length;
      if (moment.repeated) skipped.repeated += effective.length;
    }
    return moment.repeated ? [] : effective.map(({ name }) => [name, moment.index] as const);
  });
}

async function runPlan(
  options: SimulationOptions,
  scenario: (world: World) => unknown,
  plan: FaultPlan,
  known: ReadonlyMap<string, ExploredFault>,
  observes: boolean,
): Promise<Run> {
  const last = plan.at(-1)?.[1] ?? 0;
  const moments: ExploredMoment[] = [];
  const processes = new Set<string>();
  const seen = new Set<string | undefined>();
  let sessionTimeout = 0;
  let behaviour = '';
  let entries = 0;
  let count = 0;
  let injectedBefore: Event | undefined;
  let world: World | undefined;

  const observe = (event: Event) => {
    const isSame = event === injectedBefore;
    injectedBefore = undefined;
    if (isSame || !world!.exploring || event.due === -Infinity) return undefined;
    const index = count++;
    if (observes && index >= last) {
      const before = behaviour;
      behaviour = world!.behaviour.toString();
      const previous = moments.at(-1);
      if (previous) previous.silent = behaviour === before;
      if (behaviour !== before || world!.trace.length > entries) seen.clear();
      entries = world!.trace.length;
      const moment = momentOf(event, index, world!);
      const keepAlive = keepAliveOf(event);
      const ineffective = new Set([...known.values()].filter((fault) => !hasEffect(fault, world!)));
      moments.push(Object.assign(moment, { repeated: seen.has(keepAlive), ineffective }));
      if (keepAlive !== undefined) seen.add(keepAlive);
    }
    if (plan.length === 0) {
      for (const { name } of world!.processes) processes.add(name);
      sessionTimeout = Math.max(sessionTimeout, world!.longestSessionTimeout);
    }
    const due = plan.filter(([, at]) => at === index);
    if (due.length === 0) return undefined;
    injectedBefore = event;
    return () => {
      for (const [name] of due) inject(world!, known.get(name)!);
    };
  };

  let digest: string;
  let failure: SimulationError | undefined;
  try {
    ({ digest } = await simulate(options, (created) => {
      world = created;
      created.beforeEachEvent(observe);
      return scenario(created);
    }));
  } catch (error) {
    if (!(error instanceof SimulationError)) throw error;
    failure = error;
    digest = error.digest;
  }
  if (count <= last && plan.length > 0) {
    throw new RangeError(
      `explore: the run has ${count} moments, so the plan ${JSON.stringify(plan)} does not fit`,
    );
  }
  const outcome = new Digest();
  outcome.addText(`${world!.behaviour.toString()} ${failure ? failure.message : ''}`);
  return {
    moments,
    behaviour: outcome.toString(),
    digest,
    failure,
    processes: [...processes],
    servers: world!.servers.map(({ address }) => address),
    sessionTimeout,
  };
}

function hasEffect(fault: ExploredFault, world: World): boolean {
  return fault.hasEffect?.(world) ?? true;
}

function inject(world: World, fault: ExploredFault): void {
  if (!hasEffect(fault, world)) return;
  const end = fault.start(world);
  if (end) world.at(world.now + fault.duration, end);
}

function momentOf(event: Event, index: number, world: World) {
  const { actor, at, kind, message } = event;
  return {
    index,
    at,
    kind: kind === 'message' || kind === 'timer' ? kind : ('step' as const),
    silent: false,
    process: actor.name,
    server: !world.processes.some((process) => process === actor),
    message: message && {
      process: message.process.name,
      direction: message.direction,
      operation: operationOf(message),
    },
  };
}

function operationOf({ packet, direction }: Message): string | undefined {
  if (typeof packet !== 'object' || direction === 'replies') return undefined;
  return OPERATION_NAMES.get(requestType(packet.bytes));
}

/** Returns a text that keep-alives of one connection in one direction have in common; undefined for other events. */
function keepAliveOf({ message }: Event): string | undefined {
  if (typeof message?.packet !== 'object' || !message.packet.keepAlive) return undefined;
  return `${message.process.name} ${message.direction}`;
}

/** @throws TypeError or RangeError if the plan does not fit the faults */
function checkPlan(plan: FaultPlan, known: ReadonlyMap<string, ExploredFault>): FaultPlan {
  for (const [name, moment] of plan) {
    if (!known.has(name)) {
      throw new TypeError(`explore: the plan has the unknown fault ${formatValue(name)}`);
    }
    checkNumber('a moment of the plan', moment, 0);
  }
  return plan;
}

/** @throws TypeError or RangeError for a part that does not exist */
function checkShard(shard: ExploreOptions['shard'] = { index: 0, count: 1 }) {
  const { index, count } = shard;
  checkNumber('shard.count', count, 1);
  checkNumber('shard.index', index, 0, count - 1);
  return shard;
}
