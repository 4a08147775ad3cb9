import { describe, expect, it } from 'vitest';
import type { ZkClient } from '../../../lib/client/index.js';
import { EventLog } from '../../../lib/cli/events.js';
import { scan } from '../../../lib/cli/scan.js';
import { LeaderLatch, Mutex, ReadWriteLock, Semaphore } from 'nestjs-zookeeper/recipes';
import { expire, useClients } from '../../support/clients.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const connect = useClients(server);

/** Returns a function that reads all that is below a path, and resolves to the events since the last call. */
async function readerOf(path: string): Promise<() => Promise<string[]>> {
  const client = await connect();
  await client.ensureContainers(path);
  const log = new EventLog(client);
  const read = async () => {
    const options = { kinds: ['lock', 'election'] as const, inNamespace: false, path };
    const events = await log.update((await scan(client, options)).states);
    return events.map(({ event, key, note }) => [event, key, ...(note ? [note] : [])].join(' '));
  };
  expect(await read()).toEqual([]);
  return read;
}

const strict = { fairness: 'strict' } as const;

/** Starts a wait, and resolves when its znode exists. */
async function wait(client: ZkClient, path: string, nodes: number) {
  const signal = new AbortController();
  const acquired = new Mutex(client, path).acquire({ ...strict, signal: signal.signal });
  acquired.catch(() => {});
  await untilNodes(client, path, nodes);
  return { acquired, signal };
}

describe('the events between two reads', () => {
  it('are a grant, a wait, a release and the next grant', async () => {
    const root = server.path('mutex');
    const path = `${root}/locks/gold`;
    const [client, read] = await Promise.all([connect(), readerOf(root)]);
    const lease = await new Mutex(client, path).acquire();
    expect(await read()).toEqual(['granted gold']);
    const { acquired } = await wait(client, path, 2);
    expect(await read()).toEqual(['waiting gold']);
    expect(await read()).toEqual([]);
    await lease.release();
    const second = await acquired;
    expect(await read()).toEqual(['released gold', 'granted gold']);
    await second.release();
    expect(await read()).toEqual(['released gold or its session has ended']);
  });

  it('tell a waiter that gave up from one that may have held the lock', async () => {
    const root = server.path('gave-up');
    const path = `${root}/locks/gold`;
    const [client, read] = await Promise.all([connect(), readerOf(root)]);
    const lease = await new Mutex(client, path).acquire();
    const first = await wait(client, path, 2);
    const second = await wait(client, path, 3);
    await wait(client, path, 4);
    await read();
    second.signal.abort();
    await untilNodes(client, path, 3);
    expect(await read()).toEqual(['gave-up gold']);
    await lease.release();
    await (await first.acquired).release();
    expect(await read()).toEqual([
      'released gold',
      'released gold held between two reads, or gave up',
      'granted gold',
    ]);
  });

  it('are a loss if the znodes of a session are deleted together', async () => {
    const root = server.path('lost');
    const [client, other, read] = await Promise.all([connect(), connect(), readerOf(root)]);
    // The server deletes containers that are empty, and with them the transaction of their last change.
    for (const path of ['', '/gold', '/silver']) await other.create(`${root}/locks${path}`);
    await new Mutex(client, `${root}/locks/gold`).acquire();
    await new ReadWriteLock(client, `${root}/locks/silver`).read.acquire();
    const latch = new LeaderLatch(other, `${root}/elections/nightly`, { id: 'n0' });
    latch.start();
    await untilNodes(other, `${root}/elections/nightly`, 1);
    expect(await read()).toEqual(['elected nightly', 'granted gold', 'granted silver']);
    await expire(client, server);
    await untilNodes(other, `${root}/locks/silver`, 0);
    expect(await read()).toEqual(['lost gold', 'lost silver']);
    const lease = await new Mutex(other, `${root}/locks/gold`).acquire();
    await read();
    await latch.close();
    await lease.release();
    // Two deletes.
    const note = 'or its session has ended';
    expect(await read()).toEqual([`resigned nightly ${note}`, `released gold ${note}`]);
  });

  it('are the grant of a request for permits, although its znode is another one', async () => {
    const root = server.path('permits');
    const path = `${root}/semaphores/s`;
    const [client, other, read] = await Promise.all([connect(), connect(), readerOf(root)]);
    const lease = await new Semaphore(client, path, { permits: 2 }).acquire({ count: 2 });
    expect(await read()).toEqual(['granted s', 'granted s']);
    const waiting = new Semaphore(other, path, { permits: 2 }).acquire();
    await untilNodes(client, `${path}/leases`, 3);
    expect(await read()).toEqual(['waiting s']);
    await lease.release();
    const second = await waiting;
    const note = 'or its session has ended';
    expect(await read()).toEqual([`released s ${note}`, `released s ${note}`, 'granted s']);
    await second.release();
    expect(await read()).toEqual([`released s ${note}`]);
  });

  it('leave out a lock that cannot be read', async () => {
    const root = server.path('unreadable');
    const path = `${root}/locks/gold`;
    const auth = [{ scheme: 'digest' as const, user: 'ops', password: 'secret' }];
    const [client, read] = await Promise.all([connect({ auth }), readerOf(root)]);
    const lease = await new Mutex(client, path).acquire();
    expect(await read()).toEqual(['granted gold']);
    await client.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
    expect(await read()).toEqual([]);
    await client.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }]);
    expect(await read()).toEqual([]);
    await lease.release();
    expect(await read()).toEqual(['released gold or its session has ended']);
  });
});
