import { expect, test } from 'vitest';
import { resolveOptions } from '../../lib/embedded/options.js';
import { ZooKeeperServer } from '../../lib/embedded/server.js';
import { RawClient } from '../support/raw-client.js';

const blockThread = (milliseconds: number) =>
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);

test('After a pause of its thread the server hears what clients sent before it calls them silent', async () => {
  const server = new ZooKeeperServer(resolveOptions({ tickTime: 10, minSessionTimeout: 1000 }));
  const port = await server.listen();
  const client = await RawClient.connect({ port, timeout: 1000 });
  const silent = await RawClient.connect({ port, timeout: 1000 });

  const sentBefore = client.ping();
  blockThread(1500);

  expect((await sentBefore).err).toBe(0);
  expect((await client.ping()).err).toBe(0);
  await silent.closed;
  await server.close();
});
