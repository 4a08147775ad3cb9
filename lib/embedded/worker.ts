import { parentPort, workerData } from 'node:worker_threads';
import type { Answer, Command, Request, WorkerInput } from './messages.js';
import { ZooKeeperServer } from './server.js';
import type { SavedStore } from './store.js';

const port = parentPort;
if (!port) throw new Error('this file is the embedded ZooKeeper’s thread: start EmbeddedZooKeeper');
const say = (answer: Answer) => port.postMessage(answer);

const { options, saved } = workerData as WorkerInput;
const server = new ZooKeeperServer(options, saved);

port.on('message', async ({ id, command }: Request) => {
  say({ type: 'done', id, result: await run(command) });
  // Without a listener on its port and without sockets the thread ends by itself.
  if (command.type === 'stop') port.close();
});

try {
  say({ type: 'listening', port: await server.listen() });
} catch (error) {
  const { message, code } = error as NodeJS.ErrnoException;
  say({ type: 'failed', reason: message, code });
  port.close();
}

async function run(command: Command): Promise<SavedStore | boolean | undefined> {
  switch (command.type) {
    case 'stop':
      return server.close();
    case 'dropConnections':
      server.dropConnections();
      return undefined;
    case 'dropConnection':
      return server.dropConnection(command.session);
    case 'skipClock':
      server.skipClock(command.ms);
      return undefined;
    case 'addFault':
      server.addFault(command.id, command.fault);
      return undefined;
    case 'liftFault':
      server.liftFault(command.id);
      return undefined;
    case 'expireSession':
      return server.expireSession(command.id);
  }
}
