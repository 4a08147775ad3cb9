import type { RunSettings, SimulatedRun } from '../../demo/simulated-run.js';

/** What the worker replies. */
export type WorkerReply = { readonly run: SimulatedRun } | { readonly error: string };

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
let previous: Promise<unknown> = Promise.resolve();
/** Set for good: a worker that was not loaded never replies. */
let failure: Error | undefined;
let rejectCurrent: (error: Error) => void = () => {};
worker.addEventListener('error', ({ message }) => {
  failure = new Error(message || 'the worker was not loaded');
  rejectCurrent(failure);
});

/** Simulates a run in the worker, after the runs that were requested before. */
export function simulateInWorker(settings: RunSettings): Promise<SimulatedRun> {
  const simulated = previous.then(() => request(settings));
  previous = simulated.catch(() => {});
  return simulated;
}

async function request(settings: RunSettings): Promise<SimulatedRun> {
  if (failure) throw failure;
  const { port1, port2 } = new MessageChannel();
  try {
    const reply = await new Promise<WorkerReply>((resolve, reject) => {
      rejectCurrent = reject;
      port1.addEventListener('message', ({ data }: MessageEvent<WorkerReply>) => resolve(data));
      port1.start();
      worker.postMessage(settings, [port2]);
    });
    if ('run' in reply) return reply.run;
    throw new Error(reply.error);
  } finally {
    port1.close();
  }
}
