import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { EmbeddedServerKind } from '../simulation/types.js';
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
 * @throws Error if a process ends, or exceeds the limit
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
  { lib, until, limit, report }: ExplorePartsOptions,
): Promise<void> {
  const child = fork(WORKER, [lib], {
    // One thread for each process, because the processes use all cores. The size is in megabytes.
    execArgv: [...process.execArgv, '--single-threaded', '--max-semi-space-size=64'],
    serialization: 'advanced',
  });
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`a process of the exploration ended with ${String(signal ?? code)}`);
  });
  ended.catch(() => {});
  const next = async () => ((await Promise.race([once(child, 'message'), ended])) as unknown[])[0];
  const kill = () => void child.kill('SIGKILL');
  try {
    await next();
    for (let part = parts.shift(); part; part = parts.shift()) {
      const maxSeconds = Math.max(0, (until - performance.now()) / 1000);
      const timer = limit === undefined ? undefined : setTimeout(kill, limit);
      child.send({ ...part, maxSeconds } satisfies PartRequest);
      report(part, (await next().finally(() => clearTimeout(timer))) as PartResult);
    }
    child.disconnect();
  } catch (error) {
    // The other processes need not go on.
    parts.length = 0;
    throw error;
  }
}
