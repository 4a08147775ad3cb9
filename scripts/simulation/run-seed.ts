import { checkEnd, checkHistory } from './properties.js';
import { DEFAULT_SERVER } from './options.js';
import { startProcess } from './start-process.js';
import { planFaults } from './fault-plan.js';
import { History } from './history.js';
import { type StartProgram, Workload } from './workload.js';
import { Nemesis } from './nemesis.js';
import { FaultWindows } from './fault-windows.js';
import {
  MAX_HOLD_AT_LEAST,
  MAX_LINGER,
  notificationTime,
  recoveryTime,
  drawSetting,
  type Setting,
  SYNC_LIMIT,
  TICK_TIME,
  WORK_UNTIL,
} from './setting.js';
import type { Library, Report, RunOptions, RunSeed, Violation } from './types.js';
import { ZnodeChecks } from './znode-checks.js';

/** Virtual milliseconds within which all requests must settle after the workload has stopped. */
const SETTLE_LIMIT = 30_000;
/** Virtual milliseconds after which a run that has not ended fails. */
const RUN_LIMIT = 120_000;

/** What the processes of a run do, and what is checked at its end. */
export interface WorkloadKind {
  /** Changes the parameters that were drawn from the seed. Default: none. */
  adjust?(setting: Setting): Setting;
  /** Starts the program of a process. */
  readonly start: StartProgram;
  /** Virtual milliseconds for which the workload continues after the recovery from the last fault. */
  readonly workAfterRecovery: number;
  /** Checks the state at the end of a run, after all faults and all requests. */
  readonly checkEnd: typeof checkEnd;
}

/** Runs all recipes of locks under the faults of one seed and checks what happened. */
export const runSeed: RunSeed = (library, options) =>
  runWorkload({ start: startProcess, workAfterRecovery: 1_500, checkEnd }, library, options);

/** Runs a workload under the faults of one seed and checks what happened. */
export async function runWorkload(
  kind: WorkloadKind,
  library: Library,
  { seed, server, faults: indexes, timeline }: RunOptions,
): Promise<Report> {
  const { simulate, SimulationError, Random } = library.testing;
  const random = new Random(seed);
  const drawn = drawSetting(random.fork());
  const setting = { ...(kind.adjust?.(drawn) ?? drawn), server };
  const planned = planFaults(setting, random.fork());
  const faults = planned.filter(({ index }) => !indexes || indexes.includes(index));
  const faultWindows = new FaultWindows(faults, setting);
  const workUntil = Math.max(
    WORK_UNTIL,
    faultWindows.lastEnd + recoveryTime(setting) + kind.workAfterRecovery,
  );
  let history: History | undefined;
  const unsubscribe = library.recipes.onDeadlock(({ message }) =>
    history?.recordViolation('no false deadlock is reported', message),
  );

  const report = (
    violations: readonly Violation[],
    rest: Omit<Report, 'seed' | 'faults' | 'violations' | 'grants' | 'acquires' | 'processes'>,
  ): Report => ({
    seed,
    ...rest,
    faults,
    violations,
    grants: history ? history.leases.length + history.operations : 0,
    acquires: (timeline && history?.acquires()) || [],
    processes: setting.processes.map(({ name }) => name),
  });
  const { servers, latency, lag } = setting;
  const ensemble = { servers, lag, tickTime: TICK_TIME, syncLimit: SYNC_LIMIT };
  // A build of --lib may be older than the option.
  const copied = server === undefined || server === DEFAULT_SERVER ? {} : { server };
  const options = { seed, ...ensemble, ...copied, latency, limit: RUN_LIMIT };
  try {
    const { value: violations, ...result } = await simulate(options, async (world) => {
      const znodes = new ZnodeChecks(
        (history = new History(
          world,
          library,
          (record) => {
            world.at(record.granted, () => znodes.check(record));
          },
          (record) => {
            world.at(world.now, () => znodes.checkHeld(record));
          },
        )),
        setting,
        faultWindows,
      );
      const acceptsWork = () => world.now < workUntil;
      const isFaultFree = (from: number, until: number) => faultWindows.isFaultFree(from, until);
      const workload = new Workload(
        world,
        library,
        history,
        setting,
        kind.start,
        random.fork(),
        acceptsWork,
        isFaultFree,
      );
      const operator = await world.process('operator').client({
        sessionTimeout: 60_000,
      });
      for (const { name } of setting.processes) workload.start(name);
      await new Nemesis(world, workload, history, setting, operator).run(faults);
      await world.sleep(workUntil - world.now);
      const finished = Promise.all(
        workload.running.map(async (member) => {
          await member.started;
          await member.process.run(async () => member.program?.finished);
        }),
      );
      await Promise.race([finished, world.sleep(SETTLE_LIMIT)]);
      await world.sleep(MAX_LINGER + MAX_HOLD_AT_LEAST + 4 * notificationTime(setting));
      await kind.checkEnd(world, history, workload, setting);
      checkHistory(history, setting, faultWindows);
      return history.violations;
    });
    const { digest, duration, events } = result;
    return report(violations, { digest, duration, events });
  } catch (error) {
    if (!(error instanceof SimulationError)) throw error;
    const { cause, at, digest } = error;
    const message = cause instanceof Error ? (cause.stack ?? cause.message) : error.message;
    const failed = { property: 'the run ends without an error', message, at };
    return report([...(history?.violations ?? []), failed], { digest, duration: at, events: 0 });
  } finally {
    unsubscribe();
  }
}
