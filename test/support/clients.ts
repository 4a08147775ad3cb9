import type { ZkClient, ZkClientOptions } from '../../lib/client/index.js';
import { type TestServer } from './servers.js';
import { afterEach } from './virtual-time.js';

/** Creates clients of the file's server, and closes them after each test. */
export function useClients(server: TestServer) {
  const open: ZkClient[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((client) => client.close()));
  });
  return async (options: Partial<ZkClientOptions> = {}): Promise<ZkClient> => {
    const client = server.newClient({ sessionTimeout: 10_000, ...options });
    open.push(client);
    await client.connect();
    return client;
  };
}

/** Creates links to the file's server, and removes them after each test. */
export function useLinks(server: TestServer): TestServer['newLink'] {
  const open: AsyncDisposable[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((link) => link[Symbol.asyncDispose]()));
  });
  return async (options) => {
    const link = await server.newLink(options);
    open.push(link);
    return link;
  };
}

/** Expires the client's session on the server. */
export async function expire(client: ZkClient, server: TestServer): Promise<void> {
  await server.expire(await client.session());
}

/** Resolves when the client is in this state; at once if it is already. */
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
