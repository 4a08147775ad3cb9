import { afterEach, beforeEach, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { RawClient } from '../../support/raw-client.js';
import { create, exists } from '../../support/raw-requests.js';

// The thread of the server and its restart. What the faults do is tested in test/integration/embedded.

let server: EmbeddedZooKeeper;
const connect = () => RawClient.connect({ port: server.port, timeout: 60_000 });

beforeEach(async () => {
  server = await EmbeddedZooKeeper.start();
});
afterEach(() => server.stop());

test('Faults end at a restart, and an old undo function does not end new faults', async () => {
  const before = await server.faults.refuseConnections();
  await expect(connect()).rejects.toThrow();
  await server.restart();
  const client = await connect();
  await server.faults.refuseConnections();
  await before();
  await expect(connect()).rejects.toThrow();
  // The server stops at once although replies are held back.
  await server.faults.cut('replies');
  const lost = exists(client, '/').catch(() => 'lost');
  await server.stop();
  expect(await lost).toBe('lost');
  await before();
  await expect(server.faults.refuseConnections()).rejects.toThrow('it was stopped');
});

test('The advanced clock stays advanced over a restart', async () => {
  await server.skipClock(3_600_000);
  await server.restart();
  await create(await connect(), '/after');
  const { body } = await exists(await connect(), '/after');
  expect(body!.stat.mtime).toBeGreaterThan(Date.now() + 3_500_000);
});

test('Invalid arguments are rejected', async () => {
  const { faults } = server;
  for (const [call, message] of [
    [faults.dropReply({ op: 'mkdir' as 'create' }), 'op must be one of ZooKeeper'],
    [faults.delay(-1), 'delay must be between 0 and'],
    [faults.delay('1' as unknown as number), 'delay must be a whole number'],
    [faults.cut('left' as 'both'), 'cut must be "requests", "replies" or "both"'],
    [faults.cut('both', { session: 'x' }), 'session id must be hexadecimal'],
    [server.skipClock(-1), 'skipClock must be between 0 and'],
    [server.dropConnections('x'), 'session id must be hexadecimal'],
  ] as const) {
    await expect(call).rejects.toThrow(message);
  }
});
