import { parentPort, workerData } from 'node:worker_threads';
import type { ServerOptions } from './options.js';
import { ZooKeeperServer } from './server.js';
import type { SavedStore } from './store.js';

/** The data that the thread starts with. */
export interface WorkerInput {
  readonly options: ServerOptions;
  readonly saved: SavedStore | undefined;
}

/** The methods that the main thread may call. */
export type Controls = Pick<
  ZooKeeperServer,
  'addFault' | 'close' | 'dropConnections' | 'expireSession' | 'liftFault' | 'skipClock'
>;

/** A call of one of the server's methods. */
export interface Request {
  readonly id: number;
  readonly method: keyof Controls;
  readonly args: unknown[];
}

/** The outcome of a request. That of the start has the id 0 and the port as its result. */
export interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly failure?: { readonly message: string; readonly code: string | undefined };
}

const port = parentPort;
if (!port) {
  throw new Error(
    "this file runs in the embedded ZooKeeper's thread: use EmbeddedZooKeeper.start()",
  );
}

const { options, saved } = workerData as WorkerInput;
const server = new ZooKeeperServer(options, saved);

const outcome = async (id: number, work: () => unknown): Promise<Answer> => {
  try {
    return { id, result: await work() };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return { id, failure: { message, code } };
  }
};

port.on('message', async ({ id, method, args }: Request) => {
  const call = server[method] as (...args: unknown[]) => unknown;
  port.postMessage(await outcome(id, () => call.apply(server, args)));
  // Without sockets, the thread exits by itself. Deno's parentPort has no close().
  if (method === 'close') port.unref();
});

void outcome(0, () => server.listen()).then((started) => {
  port.postMessage(started);
  if (started.failure) port.unref();
});
