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
  | 'addFault'
  | 'close'
  | 'dropConnection'
  | 'dropConnections'
  | 'expireSession'
  | 'liftFault'
  | 'skipClock'
>;

/** A call of one of the server's methods. */
export interface Request {
  readonly id: number;
  readonly method: keyof Controls;
  readonly args: unknown[];
}

/** The messages of the thread: first whether it listens, then the result of each request. */
export type Answer =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'failed'; readonly reason: string; readonly code: string | undefined }
  | { readonly type: 'done'; readonly id: number; readonly result: unknown };

const port = parentPort;
if (!port) {
  throw new Error(
    "this file runs in the embedded ZooKeeper's thread: use EmbeddedZooKeeper.start()",
  );
}
const post = (answer: Answer) => port.postMessage(answer);

const { options, saved } = workerData as WorkerInput;
const server = new ZooKeeperServer(options, saved);

port.on('message', async ({ id, method, args }: Request) => {
  const call = server[method] as (...args: unknown[]) => unknown;
  post({ type: 'done', id, result: await call.apply(server, args) });
  // Without a listener on its port and without sockets, the thread exits by itself.
  if (method === 'close') port.close();
});

try {
  post({ type: 'listening', port: await server.listen() });
} catch (error) {
  const { message, code } = error as NodeJS.ErrnoException;
  post({ type: 'failed', reason: message, code });
  port.close();
}
