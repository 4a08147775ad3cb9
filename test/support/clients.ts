import { ZkClient, type ZkClientOptions } from '../../lib/client/index.js';
import { afterEach } from 'vitest';
import { clientDefaults, type TestServer } from './servers.js';
import { expire as expireSession } from './sessions.js';

/** Creates clients of the file's server, and closes them after each test. */
export function useClients(server: TestServer) {
  const open: ZkClient[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((client) => client.close()));
  });
  return async (options: Partial<ZkClientOptions> = {}): Promise<ZkClient> => {
    const client = new ZkClient({
      ...clientDefaults,
      connectString: server.connectString,
      sessionTimeout: 10_000,
      ...options,
    });
    open.push(client);
    await client.connect();
    return client;
  };
}

/** Expires the client's session on the server: a second connection attaches to it and closes it. */
export async function expire(client: ZkClient, server: TestServer): Promise<void> {
  await expireSession(await client.session(), server.port);
}

/**
 * Resolves when `condition` holds after a change of the connection state, or at once if it holds
 * already.
 */
export function untilState(client: ZkClient, state: ZkClient['state']): Promise<void> {
  if (client.state === state) return Promise.resolve();
  return new Promise((resolve) => {
    const unsubscribe = client.onState((change) => {
      if (change.state !== state) return;
      unsubscribe();
      resolve();
    });
  });
}

export function aborted(signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) return Promise.resolve(signal.reason);
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(signal.reason), { once: true });
  });
}
