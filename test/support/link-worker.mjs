import { parentPort, workerData } from 'node:worker_threads';
import { Link } from '../../scripts/faults/link.mjs';

// Runs in a thread of its own: the native client's close() blocks its own thread until the server
// answers.

const link = await Link.to(workerData.target, workerData);

parentPort?.on(
  'message',
  async (/** @type {{ id: number; command: import('./link.js').Command }} */ { id, command }) => {
    const result = await (command === 'accepted' ? link.accepted : link[command]());
    parentPort?.postMessage({ id, result });
  },
);
parentPort?.postMessage({ port: link.port });
