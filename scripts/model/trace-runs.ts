import { exploreScenario, type Scenario } from '../explore/explore-scenario.js';
import { checkEnd } from '../simulation/properties.js';
import { runWorkload } from '../simulation/run-seed.js';
import type { JobName, Setting } from '../simulation/setting.js';
import { startProcess } from '../simulation/start-process.js';
import type { EmbeddedServerKind, Library } from '../simulation/types.js';
import { Recording } from './record.js';
import type { Refusal, Step } from './replay.js';

type World = import('nestjs-zookeeper/testing').World;

/** The beginning of the message of the error with which a refused run ends. */
const REFUSED = 'refused: ';

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
    this.end();
    this.current = new Recording(world, this.server === 'zookeeper');
    this.traces.runs++;
    try {
      const result = await scenario(world);
      this.#throwIfRefused();
      return result;
    } catch (error) {
      this.#throwIfRefused();
      throw error;
    }
  }

  /** Ends the recording. With an error, `explore` counts the run and names its schedule. */
  #throwIfRefused(): void {
    const refusal = this.end();
    if (refusal) throw new Error(REFUSED + refusal.message);
  }

  /** Ends the recording of a run, which may have reached the limit of its simulation and not have ended. */
  end(): Refusal | undefined {
    const { traces, current } = this;
    if (!current) return undefined;
    this.current = undefined;
    current.stop();
    const { counts, refusal } = current.replay;
    for (const [step, count] of counts) traces.counts[step] = (traces.counts[step] ?? 0) + count;
    if (refusal) traces.refusals.push({ ...refusal, run: `run ${traces.runs}` });
    return refusal;
  }
}

/** The jobs of the simulation that acquire mutexes. */
const MUTEX_JOBS: readonly JobName[] = [
  ...(['mutex', 'long hold', 'uncontended mutex', 'rarely used mutex', 'nested locks'] as const),
  ...(['re-entry', 'late use of an entry', 'burst on a mutex'] as const),
  'participants and revocation',
];

/** Returns a setting with mutexes only. The callers of a lock are all strict or none is, as in the model. */
function mutexesOf(setting: Setting): Setting {
  const strictProbability = Math.round(setting.strictProbability);
  const jobs = setting.jobs.filter(
    (name) =>
      MUTEX_JOBS.includes(name) &&
      // It waits in the default order.
      (strictProbability === 0 || name !== 'late use of an entry'),
  );
  return { ...setting, strictProbability, jobs: jobs.length > 0 ? jobs : ['mutex'] };
}

/** Runs one seed of the workload of locks. */
export async function traceSeed(
  library: Library,
  seed: number,
  server: EmbeddedServerKind,
): Promise<Traces> {
  const recorder = new Recorder(library, server);
  const kind: Parameters<typeof runWorkload>[0] = {
    adjust: mutexesOf,
    start(context) {
      // A holder that listens reads its znode earlier. So only half of the seeds do.
      recorder.current?.follow(context, seed % 2 === 0);
      return startProcess(context);
    },
    workAfterRecovery: 1_500,
    checkEnd(world, history, workload, setting) {
      recorder.current?.finish(workload);
      return checkEnd(world, history, workload, setting);
    },
  };
  await runWorkload(kind, recorder.recordingLibrary, { seed, server, workload: 'locks' });
  recorder.end();
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
          recorder.current?.follow(context, false);
          return start(context);
        },
        checkEnd(world, history, workload, setting) {
          recorder.current?.finish(workload);
          return check(world, history, workload, setting);
        },
      };
    },
  };
  const options = { pairs: false, shard };
  const { traces } = recorder;
  try {
    const all = await exploreScenario(recorder.recordingLibrary, recorded, server, options);
    recorder.end();
    traces.runs = all.schedules;
    const plans = all.violations.filter(({ error }) => isRefusal(error.cause));
    for (const [index, { plan }] of plans.entries())
      Object.assign(traces.refusals[index] ?? {}, { run: JSON.stringify(plan) });
  } catch (error) {
    recorder.end();
    // A run without a fault was refused, and nothing is explored.
    if (traces.refusals.length === 0) throw error;
  }
  return traces;
}

function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(REFUSED);
}
