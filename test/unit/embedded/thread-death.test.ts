import type { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { RawClient } from '../../support/raw-client.js';

const threads = vi.hoisted((): Worker[] => []);
vi.mock(import('node:worker_threads'), async (importOriginal) => {
  const original = await importOriginal();
  class ObservedWorker extends original.Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args);
      threads.push(this);
    }
  }
  return { ...original, Worker: ObservedWorker };
});

describe('When the embedded server’s thread dies', () => {
  afterEach(() => threads.splice(0));

  test('every call rejects with the reason, and stop() still resolves', async () => {
    const server = await EmbeddedZooKeeper.start();
    const pending = server.dropConnections();
    await threads[0].terminate();
    for (const call of [server.dropConnections(), server.expireSession('1')]) {
      await expect(call).rejects.toThrow('not running: its thread exited with code 1');
    }
    await pending.catch(() => {});
    await server.stop();
  });

  test('during the start, start() rejects', async () => {
    const starting = EmbeddedZooKeeper.start();
    await threads[0].terminate();
    await expect(starting).rejects.toThrow('not running');
  });

  test('a restart uses the same port again', async () => {
    const server = await EmbeddedZooKeeper.start();
    await threads[0].terminate();
    await server.restart();
    const client = await RawClient.connect({ port: server.port });
    expect((await client.ping()).err).toBe(0);
    await server.stop();
  });
});
