import { hostname } from 'node:os';
import { Logger } from '@nestjs/common';
import {
  LeaderService,
  LockBusyError,
  LockService,
  SemaphoreService,
  type ZkClient,
} from 'nestjs-zookeeper';
import { Mutex, ReadWriteLock } from 'nestjs-zookeeper/recipes';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { useClients } from '../../support/clients.js';
import { killedHolder } from '../../support/killed-holder.js';
import { useApps } from '../../support/nest-apps.js';
import { failureOf, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
const apps = useApps(server);
const connect = useClients(server);

/** Longer than a test may take: the sessions of killed processes do not end meanwhile. */
const sessionTimeout = 40_000;
const options = (path: string) => ({ connectString: server.connectString, sessionTimeout, path });

const warnings: string[] = [];
beforeEach(() => {
  warnings.length = 0;
  vi.spyOn(Logger.prototype, 'warn').mockImplementation((line) => {
    // The log names a server that is not Apache ZooKeeper.
    if (!String(line).startsWith('the server is not')) warnings.push(String(line));
  });
});
afterEach(() => vi.restoreAllMocks());

/** From now on this process seems to have begun three seconds ago, after all znodes were created. */
function asIfStartedLater(): void {
  vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 60_000);
  vi.spyOn(process, 'uptime').mockReturnValue(3);
}

async function refusal(client: ZkClient, path: string): Promise<string> {
  const failure = await failureOf(new Mutex(client, path).acquire({ wait: 0 }));
  expect(failure).toBeInstanceOf(LockBusyError);
  return (failure as Error).message;
}

describe('a lock that a process of this host held when it was killed', () => {
  it('is refused to a try with the process and the time', async () => {
    const path = server.path('gold');
    const { pid } = await killedHolder(options(path));
    const client = await connect({ sessionTimeout: 8000 });
    expect(await refusal(client, path)).toMatch(
      new RegExp(
        `^lock "${path}" is held by process ${pid} of this host, which has ended; its znode is \\d+ s old, and its session ends in at most 8 s; set wait`,
      ),
    );
  });

  it('does not count as held by a process that only waited for it when it was killed', async () => {
    const path = server.path('gold');
    const client = await connect({ sessionTimeout: 8000 });
    const lease = await new Mutex(await connect(), path).acquire();
    const { pid } = await killedHolder({ ...options(path), recipe: 'waiter' });
    expect(await refusal(client, path)).toMatch(
      new RegExp(`^lock "${path}" is requested before this one by process ${pid} of this`),
    );
    await lease.release();
  });

  it('is in the log once, however many callers wait for it or try', async () => {
    const namespace = server.path('shop');
    const { pid } = await killedHolder(options(`${namespace}/locks/gold`));
    const locks = (await apps.start({}, { namespace, sessionTimeout })).get(LockService);
    const cancelling = new AbortController();
    const { signal } = cancelling;
    const waiting = [1, 2].map(() => failureOf(locks.acquire('gold', { signal })));
    await expect.poll(() => warnings).toHaveLength(1);
    await failureOf(locks.acquire('gold', { wait: 0, fairness: 'strict' }));
    cancelling.abort();
    await Promise.all(waiting);
    await failureOf(locks.acquire('gold', { wait: 50 }));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      new RegExp(`^lock "gold" is held by process ${pid} of this host, .*sessionFile`),
    );
  });

  it('is in the log without characters of its key that could forge a line', async () => {
    const path = server.path('gold');
    await killedHolder(options(path));
    const locks = (await apps.start({}, { sessionTimeout })).get(LockService);
    await failureOf(locks.acquire('gold\u009b\u202e\u2028', { path, wait: 0 }));
    expect(warnings).toEqual([expect.stringContaining('lock "gold???" is held by process')]);
  });

  it('is in the log for a semaphore', async () => {
    const namespace = server.path('shop');
    const path = `${namespace}/semaphores/pool`;
    const { pid } = await killedHolder({ ...options(path), recipe: 'semaphore' });
    const app = await apps.start({}, { namespace, sessionTimeout });
    const cancelling = new AbortController();
    const { signal } = cancelling;
    const waiting = failureOf(app.get(SemaphoreService).acquire('pool', { permits: 2, signal }));
    await expect.poll(() => warnings).toHaveLength(2);
    for (const line of warnings) {
      expect(line).toContain(`semaphore "pool" is held by process ${pid} of this host`);
    }
    cancelling.abort();
    await waiting;
  });

  it('is in the log for an election', async () => {
    const namespace = server.path('shop');
    const path = `${namespace}/elections/job`;
    const { pid } = await killedHolder({ ...options(path), recipe: 'latch' });
    const app = await apps.start({}, { namespace, sessionTimeout, elections: ['job'] });
    await expect.poll(() => warnings).toHaveLength(1);
    expect(warnings[0]).toContain(`election "job" is led by process ${pid} of this host`);
    expect(app.get(LeaderService).isLeader('job')).toBe(false);
  });
});

describe('a lock is refused without such a sentence', () => {
  it.each<[string, object | string]>([
    ['if the process runs', { host: hostname(), pid: process.ppid }],
    ['if it is held by this process', { host: hostname(), pid: process.pid }],
    ['if the host is another one', { host: 'elsewhere', pid: 2 ** 22 + 1 }],
    ['if Curator holds it', '10.0.0.7'],
    ['if other data of JSON is there', 'null'],
  ])('%s', async (_, data) => {
    const [holder, client] = [await connect(), await connect()];
    const path = server.path('gold');
    await holder.ensureContainers(path);
    const content = typeof data === 'string' ? data : JSON.stringify(data);
    await holder.create(`${path}/_c_a-lock-`, content, { mode: 'ephemeral-sequential' });
    expect(await refusal(client, path)).toMatch(/^lock "[^"]+" is held; set wait/);
  });

  it('if this process holds it, and the clock of the server is slow', async () => {
    const [holder, client] = [await connect(), await connect()];
    const path = server.path('gold');
    await using _lease = await new Mutex(holder, path).acquire();
    asIfStartedLater();
    expect(await refusal(client, path)).toMatch(/^lock "[^"]+" is held; set wait/);
  });

  it('while readers of this process hold it', async () => {
    const [holder, client] = [await connect(), await connect()];
    const path = server.path('gold');
    await using _lease = await new ReadWriteLock(holder, path).read.acquire();
    const failure = await failureOf(new ReadWriteLock(client, path).write.acquire({ wait: 0 }));
    expect((failure as Error).message).toMatch(/is held; set wait/);
  });
});

it('a process with the same id that ended before this one began is named', async () => {
  const [holder, client] = [await connect(), await connect({ sessionTimeout: 8000 })];
  const path = server.path('gold');
  await holder.ensureContainers(path);
  const data = JSON.stringify({ host: hostname(), pid: process.pid });
  await holder.create(`${path}/_c_a-lock-`, data, { mode: 'ephemeral-sequential' });
  asIfStartedLater();
  const message = await refusal(client, path);
  expect(message).toContain(`by process ${process.pid} of this host, which has ended`);
  expect(message).toContain('in at most 5 s');
  await untilNodes(holder, path, 1);
});
