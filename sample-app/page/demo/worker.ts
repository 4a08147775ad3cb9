// The worker of a simulated run: the simulation replaces timers and promises, which must not happen on the page itself.
import './node/globals.js';
import { type RunSettings, simulateRun } from '../../demo/simulated-run.js';

addEventListener('message', ({ data }: MessageEvent<RunSettings>) => {
  simulateRun(data).then(
    (run) => postMessage({ run }),
    (error: unknown) => postMessage({ error: String(error) }),
  );
});
