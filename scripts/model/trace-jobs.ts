import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TraceJob, TraceResult } from './trace-worker.js';

const WORKER = fileURLToPath(new URL('./trace-worker.js', import.meta.url));

export interface TraceJobsOptions {
  /** The directory of the build. */
  readonly lib: string;
  /** The number of processes. */
  readonly workers: number;
  readonly jobs: Iterator<TraceJob>;
  /** Milliseconds that a job may take. With a planted bug a run may never end. */
  readonly limit: number;
  readonly signal: AbortSignal;
  /** Called with the result of each job. Returns whether to stop. */
  onResult(job: TraceJob, result: TraceResult): boolean;
}

/** Runs jobs in worker processes, until none is left or `onResult` returns true. */
export async function runTraceJobs(options: TraceJobsOptions): Promise<void> {
  const { lib, workers, jobs, limit, signal, onResult } = options;
  const stop = new AbortController();
  const stopped = AbortSignal.any([signal, stop.signal]);
  const work = async () => {
    let child: Awaited<ReturnType<typeof startWorker>> | undefined;
    while (!stopped.aborted) {
      const { value: job, done } = jobs.next();
      if (done) break;
      child ??= await startWorker(lib, stopped);
      const result = await child.run(job, limit);
      if (stopped.aborted) break;
      if (onResult(job, result)) stop.abort();
      // A run that has failed may continue in the background.
      if ('error' in result) {
        child.kill();
        child = undefined;
      }
    }
    child?.kill();
  };
  try {
    await Promise.all(Array.from({ length: workers }, work));
  } finally {
    stop.abort();
  }
}

/** Starts a worker process, which is killed when the signal aborts. */
async function startWorker(lib: string, signal: AbortSignal) {
  const child = fork(WORKER, [lib], {
    execArgv: [...process.execArgv, '--max-semi-space-size=64'],
    serialization: 'advanced',
    stdio: ['ignore', 2, 2, 'ipc'],
  });
  const kill = () => void child.kill('SIGKILL');
  const ended = once(child, 'exit').then(() => [{ error: 'its process has ended' }]);
  signal.addEventListener('abort', kill);
  void ended.then(() => signal.removeEventListener('abort', kill));
  const next = async () => ((await Promise.race([once(child, 'message'), ended])) as unknown[])[0];
  await next();
  return {
    kill,
    async run(job: TraceJob, limit: number): Promise<TraceResult> {
      const timer = setTimeout(kill, limit);
      if (child.connected) child.send(job);
      return (await next().finally(() => clearTimeout(timer))) as TraceResult;
    },
  };
}
