import { SCENARIOS } from '../explore/scenarios.js';
import { loadLibrary } from '../simulation/library.js';
import type { EmbeddedServerKind } from '../simulation/types.js';
import { type Traces, traceScenario, traceSeed } from './trace-runs.js';

/*
 * The module of a worker process, which replays the traces of runs. Its argument is the build of the library. It sends
 * `ready`, and then a result for each message.
 */

/** A seed of the simulation, or a part of the schedules of a scenario. */
export type TraceJob = { readonly server: EmbeddedServerKind } & (
  | { readonly seed: number }
  | {
      readonly scenario: string;
      readonly shard: { readonly index: number; readonly count: number };
    }
);

/** The error is that of a run that cannot be replayed. */
export type TraceResult = Traces | { readonly error: string };

process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit());

// Capturing stacks would take a tenth of the time.
Error.stackTraceLimit = 0;

const library = await loadLibrary(process.argv[2]!);
process.on('message', async (job: TraceJob) => {
  try {
    const { server } = job;
    const traces =
      'seed' in job
        ? await traceSeed(library, job.seed, server)
        : await traceScenario(library, SCENARIOS[job.scenario]!, server, job.shard);
    process.send!(traces satisfies TraceResult);
  } catch (error) {
    process.send!({ error: String(error) } satisfies TraceResult);
  }
});
process.send!('ready');
