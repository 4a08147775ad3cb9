// The worker of simulated runs: a simulation replaces timers and promises, which must not happen on the page itself.
import './node/globals.js';
import { type RunSettings, simulateRun } from '../../demo/simulated-run.js';
import type { WorkerReply } from './simulation.js';

addEventListener('message', ({ data, ports: [port] }: MessageEvent<RunSettings>) => {
  const reply = (message: WorkerReply) => port!.postMessage(message);
  simulateRun(data).then(
    (run) => reply({ run }),
    (error: unknown) => reply({ error: String(error) }),
  );
});
