import type { RunSettings, SimulatedRun } from '../../demo/simulated-run.js';

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
let previous: Promise<unknown> = Promise.resolve();

/** What the worker replies. */
export type WorkerReply = { readonly run: SimulatedRun } | { readonly error: string };

/** Simulates a run in the worker, after the runs that were requested before. */
export function simulateInWorker(settings: RunSettings): Promise<SimulatedRun> {
  const simulated = previous.then(() => request(settings));
  previous = simulated.catch(() => {});
  return simulated;
}

function request(settings: RunSettings): Promise<SimulatedRun> {
  return new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener('message', ({ data }: MessageEvent<WorkerReply>) => {
      port1.close();
      if ('run' in data) resolve(data.run);
      else reject(new Error(data.error));
    });
    port1.start();
    worker.addEventListener('error', ({ message }) => reject(new Error(message)), { once: true });
    worker.postMessage(settings, [port2]);
  });
}
