import { once } from 'node:events';
import net from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { ConnectionError } from '../../../lib/client/index.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const connect = useClients(zk);
const cleanUps: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

/** Returns the address of a server that does this with each connection, and never replies. */
async function serverThat(onConnection: (socket: net.Socket) => unknown): Promise<string> {
  const server = net.createServer((socket) => {
    cleanUps.push(() => socket.destroy());
    onConnection(socket.on('error', () => {}));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  cleanUps.push(() => server.close());
  return `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

const silent = () => serverThat(() => {});
/** A port on which no server listens. */
const NOWHERE = '127.0.0.1:1';

test('connect() rejects, when the retry policy gives up, with each address and why it failed', async () => {
  const deaf = await silent();
  const client = zk.newClient({
    connectString: `${NOWHERE},${deaf}`,
    connectTimeout: 50,
    retry: { type: 'fixed', delay: 50, maxRetries: 1 },
  });
  const reason = await client.connect().catch((error: Error) => error);
  expect(reason).toBeInstanceOf(ConnectionError);
  const { message } = reason as Error;
  expect(message).toContain(`${NOWHERE}: no connection to 127.0.0.1 (ECONNREFUSED)`);
  expect(message).toContain(`${deaf}: no reply within 50 ms`);
  expect(client.state).toBe('CONNECTING');
  await client.close();
});

test('connect() resolves host names, and skips addresses on which no server listens', async () => {
  const client = await connect({ connectString: `localhost:${zk.port}` });
  expect(await client.exists('/')).toBeDefined();
});

test('connect() names a host that cannot be resolved', async () => {
  // Longer than a name can be, so that no name server is asked.
  const host = `${'x'.repeat(64)}.invalid`;
  const connectString = `${host}:2181`;
  const client = zk.newClient({ connectString, retry: { type: 'none' } });
  await expect(client.connect()).rejects.toThrow(connectString);
});

test('connect() finds the working host among unreachable and silent ones', async () => {
  const hosts = [NOWHERE, await silent(), zk.connectString].join(',');
  const client = await connect({
    connectString: hosts,
    connectTimeout: 200,
    retry: { type: 'forever', delay: 1 },
  });
  expect(client.state).toBe('CONNECTED');
});

test.each([undefined, [{ scheme: 'digest', user: 'a', password: 'b' } as const]])(
  'connect() reports a server that closes the connection, and not wrong credentials, with auth %o',
  async (auth) => {
    const connectString = await serverThat((socket) => socket.destroy());
    const client = zk.newClient({ connectString, auth, retry: { type: 'none' } });
    await expect(client.connect()).rejects.toThrow(
      /did not attach a session: the connection broke/,
    );
  },
);
