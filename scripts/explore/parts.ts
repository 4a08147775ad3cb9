import { fileURLToPath } from 'node:url';
import type { EmbeddedServerKind } from '../simulation/types.js';
import { WorkerProcess } from '../worker-process.js';
import { SCENARIOS } from './scenarios.js';
import type { Part, PartRequest, PartResult } from './worker.js';

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url));

export interface ExplorePartsOptions {
  /** The directory of the build. */
  readonly lib: string;
  /** The number of processes. */
  readonly workers: number;
  /** When no further run starts, by `performance.now()`. */
  readonly until: number;
  /** Milliseconds that a part may take. Default: no limit. */
  readonly limit?: number;
  /** Kills the processes when it aborts. */
  readonly signal: AbortSignal;
  /** Called with the result of each part. */
  readonly report: (part: Part, result: PartResult) => void;
}

/** Returns the scenarios with their kinds of servers, each in so many parts. */
export function partsOf(
  scenarios: readonly string[],
  server: EmbeddedServerKind | undefined,
  pairs: boolean,
  count: number,
): Part[] {
  return scenarios.flatMap((scenario) =>
    (SCENARIOS[scenario]!.kinds ?? ['zookeeper' as const])
      .filter((kind) => server === undefined || kind === server)
      .flatMap((kind) =>
        Array.from({ length: count }, (_, index) => ({
          ...{ scenario, server: kind, pairs, shard: { index, count } },
        })),
      ),
  );
}

/**
 * Explores parts in processes of their own, and removes each part from the list as it begins.
 *
 * @throws Error if a process ends, or exceeds the limit, or the signal aborts
 */
export async function exploreParts(parts: Part[], options: ExplorePartsOptions): Promise<void> {
  const workers = Math.min(options.workers, parts.length);
  const outcomes = await Promise.allSettled(
    Array.from({ length: workers }, () => exploreInProcess(parts, options)),
  );
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

async function exploreInProcess(
  parts: Part[],
  { lib, until, limit, signal, report }: ExplorePartsOptions,
): Promise<void> {
  const worker = new WorkerProcess<PartRequest, PartResult>(WORKER, lib);
  const close = () => void worker.close();
  signal.addEventListener('abort', close);
  try {
    for (let part = parts.shift(); part; part = parts.shift()) {
      const maxSeconds = Math.max(0, (until - performance.now()) / 1000);
      report(part, await worker.request({ ...part, maxSeconds }, limit));
    }
  } finally {
    // After an error, the other processes need not continue.
    parts.length = 0;
    signal.removeEventListener('abort', close);
    await worker.close();
  }
}
