import { fileURLToPath } from 'node:url';
import { messageOf } from '../message-of.mjs';
import { WorkerProcess } from '../worker-process.js';
import type { Traces } from './trace-runs.js';
import type { TraceJob } from './trace-worker.js';

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
  /** Called with the result of each job, or with the message of the error that prevented it. Returns whether to stop. */
  onResult(job: TraceJob, result: Traces | string): boolean;
}

/** Runs jobs in worker processes, until none is left, `onResult` returns true or the signal aborts. */
export async function runTraceJobs(options: TraceJobsOptions): Promise<void> {
  const { lib, workers, jobs, limit, signal, onResult } = options;
  const stop = new AbortController();
  const stopped = AbortSignal.any([signal, stop.signal]);
  const work = async () => {
    const worker = new WorkerProcess<TraceJob, Traces>(WORKER, lib);
    const close = () => void worker.close();
    stopped.addEventListener('abort', close);
    while (!stopped.aborted) {
      const { value: job, done } = jobs.next();
      if (done) break;
      const result = await worker.request(job, limit).catch(messageOf);
      if (!stopped.aborted && onResult(job, result)) stop.abort();
    }
    await worker.close();
  };
  await Promise.all(Array.from({ length: workers }, work)).finally(() => stop.abort());
}
