import { SCENARIOS } from '../explore/scenarios.js';
import { loadLibrary } from '../simulation/library.js';
import type { EmbeddedServerKind } from '../simulation/types.js';
import { serveRequests } from '../worker-process.js';
import { traceScenario, traceSeed } from './trace-runs.js';

// The module of a worker process, which replays the traces of runs. Its argument is the build of the library.

/** A seed of the simulation, or a part of the schedules of a scenario. */
export type TraceJob = { readonly server: EmbeddedServerKind } & (
  | { readonly seed: number }
  | {
      readonly scenario: string;
      readonly shard: { readonly index: number; readonly count: number };
    }
);

const library = await loadLibrary(process.argv[2]!);
serveRequests((job: TraceJob) =>
  'seed' in job
    ? traceSeed(library, job.seed, job.server)
    : traceScenario(library, SCENARIOS[job.scenario]!, job.server, job.shard),
);
