import type { RunSettings, SimulatedRun } from '../../demo/simulated-run.js';

/** What the worker replies. */
export type WorkerReply = { readonly run: SimulatedRun } | { readonly error: string };

let idleWorker: Worker | undefined;
let cancel: () => void = () => {};

/** Simulates a run in a worker. Cancels the run before if that has not ended: its promise rejects. */
export async function simulateInWorker(settings: RunSettings): Promise<SimulatedRun> {
  cancel();
  const worker =
    idleWorker ?? new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  idleWorker = undefined;
  const { port1, port2 } = new MessageChannel();
  try {
    const reply = await new Promise<WorkerReply>((resolve, reject) => {
      cancel = () => {
        worker.terminate();
        reject(new Error('a newer run was requested'));
      };
      worker.addEventListener('error', ({ message }) =>
        reject(new Error(message || 'the worker was not loaded')),
      );
      port1.addEventListener('message', ({ data }: MessageEvent<WorkerReply>) => resolve(data));
      port1.start();
      worker.postMessage(settings, [port2]);
    });
    idleWorker = worker;
    cancel = () => {};
    if ('run' in reply) return reply.run;
    throw new Error(reply.error);
  } finally {
    port1.close();
  }
}
