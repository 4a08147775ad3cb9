import { checkEnd, checkHistory } from './properties.js';
import { planFaults } from './fault-plan.js';
import { History } from './history.js';
import { Members } from './members.js';
import { Nemesis } from './nemesis.js';
import { Disturbances } from './disturbances.js';
import {
  LONGEST_KEEP,
  LONGEST_LINGER,
  noticeTime,
  recoveryTime,
  settingOf,
  TICK_TIME,
  WORK_UNTIL,
} from './setting.js';
import type { Report, RunSeed, Violation } from './types.js';
import { ZnodeChecks } from './znode-checks.js';

/** Virtual milliseconds of work after everything has recovered. */
const CALM = 1_500;
/** Virtual milliseconds in which every acquire must settle once nothing new is asked for. */
const PATIENCE = 30_000;
/** Virtual milliseconds after which a run that does not end is a failure. */
const LIMIT = 120_000;

/** Runs all recipes under the faults of one seed and checks what happened. */
export const runSeed: RunSeed = async (library, { seed, faults: wanted, timeline }) => {
  const { simulate, SimulationError, Random } = library.testing;
  const random = new Random(seed);
  const setting = settingOf(random.fork());
  const planned = planFaults(setting, random.fork());
  const faults = planned.filter(({ index }) => !wanted || wanted.includes(index));
  const disturbances = new Disturbances(faults, setting);
  const workUntil = Math.max(WORK_UNTIL, disturbances.healed + recoveryTime(setting) + CALM);
  let history: History | undefined;
  const unsubscribe = library.recipes.onDeadlock(({ message }) =>
    history?.violation('no deadlock is reported where there is none', message),
  );

  const report = (
    violations: readonly Violation[],
    rest: Omit<Report, 'seed' | 'faults' | 'violations' | 'grants' | 'acquires' | 'processes'>,
  ): Report => ({
    seed,
    ...rest,
    faults,
    violations,
    grants: history?.leases.length ?? 0,
    acquires: (timeline && history?.acquires()) || [],
    processes: setting.processes.map(({ name }) => name),
  });
  const { servers, latency, lag } = setting;
  const options = { seed, servers, latency, lag, tickTime: TICK_TIME, limit: LIMIT };
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
        disturbances,
      );
      const working = () => world.now < workUntil;
      const calm = (from: number, until: number) => disturbances.calm(from, until);
      const members = new Members(world, library, history, setting, random.fork(), working, calm);
      const operator = await world.process('operator').client({ sessionTimeout: 60_000 });
      for (const { name } of setting.processes) members.start(name);
      await new Nemesis(world, members, history, setting, operator).run(faults);
      await world.sleep(workUntil - world.now);
      const finished = Promise.all(
        members.running.map(async (member) => {
          await member.started;
          await member.process.run(async () => member.program?.finished);
        }),
      );
      await Promise.race([finished, world.sleep(PATIENCE)]);
      await world.sleep(LONGEST_LINGER + LONGEST_KEEP + 4 * noticeTime(setting));
      await checkEnd(world, history, members, setting);
      checkHistory(history, setting, disturbances);
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
};
