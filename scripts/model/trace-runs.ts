import { exploreScenario, type Scenario } from '../explore/explore-scenario.js';
import { checkEnd } from '../simulation/properties.js';
import { runWorkload } from '../simulation/run-seed.js';
import type { Setting } from '../simulation/setting.js';
import { startProcess } from '../simulation/start-process.js';
import type { EmbeddedServerKind, Library } from '../simulation/types.js';
import { Recording } from './record.js';
import type { Refusal, Step } from './replay.js';

type World = import('nestjs-zookeeper/testing').World;

/** What the runs of a seed or of a part of a scenario did. */
export interface Traces {
  runs: number;
  readonly counts: Partial<Record<Step, number>>;
  readonly refusals: (Refusal & { readonly run: string })[];
}

/** Records each simulation that a build of the library runs. */
class Recorder {
  readonly traces: Traces = { runs: 0, counts: {}, refusals: [] };
  current: Recording | undefined;

  constructor(
    private readonly library: Library,
    private readonly server: EmbeddedServerKind,
  ) {}

  get recordingLibrary(): Library {
    const { library } = this;
    const { simulate, explore } = library.testing;
    const testing = {
      ...library.testing,
      simulate: ((options, scenario) =>
        simulate(options, (world) => this.#record(world, scenario))) as typeof simulate,
      explore: ((options, scenario) =>
        explore(options, (world) => this.#record(world, scenario))) as typeof explore,
    };
    return { ...library, testing };
  }

  async #record<T>(world: World, scenario: (world: World) => T | Promise<T>): Promise<T> {
    const { traces } = this;
    const recording = (this.current = new Recording(world, this.server === 'zookeeper'));
    traces.runs++;
    try {
      return await scenario(world);
    } finally {
      recording.stop();
      const { counts, refusal } = recording.replay;
      for (const [step, count] of counts) traces.counts[step] = (traces.counts[step] ?? 0) + count;
      // `explore` names the schedule of a run that throws.
      if (refusal) traces.refusals.push({ ...refusal, run: `run ${traces.runs}` });
      // eslint-disable-next-line no-unsafe-finally
      if (refusal) throw new Error(`refused: ${refusal.message}`);
    }
  }
}

/** The order of the callers is the same for all callers of a lock, as in the model. */
function withOneOrder(setting: Setting): Setting {
  const strictProbability = Math.round(setting.strictProbability);
  // It waits in the default order.
  const jobs = setting.jobs.filter(
    (name) => strictProbability === 0 || name !== 'late use of an entry',
  );
  return { ...setting, strictProbability, jobs };
}

/** Runs one seed of the workload of locks. */
export async function traceSeed(
  library: Library,
  seed: number,
  server: EmbeddedServerKind,
): Promise<Traces> {
  const recorder = new Recorder(library, server);
  const kind: Parameters<typeof runWorkload>[0] = {
    adjust: withOneOrder,
    start(context) {
      // A holder that listens reads its znode earlier. So only half of the seeds do.
      recorder.current!.follow(context, seed % 2 === 0);
      return startProcess(context);
    },
    workAfterRecovery: 1_500,
    checkEnd(world, history, workload, setting) {
      recorder.current!.finish(workload);
      return checkEnd(world, history, workload, setting);
    },
  };
  await runWorkload(kind, recorder.recordingLibrary, { seed, server, workload: 'locks' });
  return recorder.traces;
}

/** Runs a part of the schedules with one fault of a scenario. */
export async function traceScenario(
  library: Library,
  scenario: Scenario,
  server: EmbeddedServerKind,
  shard: { readonly index: number; readonly count: number },
): Promise<Traces> {
  const recorder = new Recorder(library, server);
  const recorded: Scenario = {
    ...scenario,
    run() {
      const { start, checkEnd: check } = scenario.run();
      return {
        start(context) {
          recorder.current!.follow(context, false);
          return start(context);
        },
        checkEnd(world, history, workload, setting) {
          recorder.current!.finish(workload);
          return check(world, history, workload, setting);
        },
      };
    },
  };
  const options = { pairs: false, shard };
  await exploreScenario(recorder.recordingLibrary, recorded, server, options);
  return recorder.traces;
}
