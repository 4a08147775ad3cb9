import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import net from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { ConnectionError, ShuttingDownError, ZkClient } from '../../../lib/client/index.js';
import { useClients } from '../../support/clients.js';
import { Link } from '../../support/link.js';
import { useServer } from '../../support/servers.js';
import { recordStates } from '../../support/sessions.js';

const zk = useServer();
const opened: AsyncDisposable[] = [];
// Registered before the hook of the clients, so that it runs after that hook.
afterEach(async () => {
  await Promise.all(opened.splice(0).map((resource) => resource[Symbol.asyncDispose]()));
});
const connect = useClients(zk);

async function link(): Promise<Link> {
  const made = await Link.to(zk.port);
  opened.push(made);
  return made;
}

/** Starts a server that accepts connections and never replies. */
async function blackHole(): Promise<string> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  opened.push({
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

/** Returns a port on which no server listens. */
const NOWHERE = '127.0.0.1:1';

const reasonOf = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('nothing was rejected');
    },
    (reason: Error) => reason,
  );

describe('connect', () => {
  test('rejects, when the retry policy gives up, with each address and why it failed', async () => {
    const [dead, deaf] = [NOWHERE, await blackHole()];
    const client = new ZkClient({
      connectString: `${dead},${deaf}`,
      connectTimeout: 500,
      retry: { type: 'fixed', delay: 50, maxRetries: 1 },
    });
    const reason = await reasonOf(client.connect());
    expect(reason).toBeInstanceOf(ConnectionError);
    expect(reason.message).toContain(`${dead}: no connection to 127.0.0.1 (ECONNREFUSED)`);
    expect(reason.message).toContain(`${deaf}: no reply within 500 ms`);
    expect(client.state).toBe('CONNECTING');
    await client.close();
  });

  test('can be called again after it failed', async () => {
    const way = await link();
    await way.down();
    const client = new ZkClient({
      connectString: way.connectString,
      retry: { type: 'none' },
    });
    await expect(client.connect()).rejects.toBeInstanceOf(ConnectionError);
    await expect(client.session()).rejects.toThrow(/connect\(\) has not succeeded/);
    await way.up();
    await client.connect();
    expect(client.state).toBe('CONNECTED');
    await client.connect();
    await client.close();
  });

  test('waits for a server that starts before the retry policy gives up', async () => {
    const way = await link();
    await way.down();
    const client = new ZkClient({
      connectString: way.connectString,
      retry: { type: 'fixed', delay: 100, maxRetries: 50 },
    });
    const connecting = client.connect();
    await delay(250);
    await way.up();
    await connecting;
    await client.close();
  });

  test('resolves host names, and skips addresses on which no server listens', async () => {
    const client = await connect({ connectString: `localhost:${zk.port}` });
    expect(await client.exists('/')).toBeDefined();
  });

  test('accepts IPv6 literals', async () => {
    const way = await Link.to(zk.port, '::1');
    opened.push(way);
    const client = await connect({ connectString: `[::1]:${way.port}` });
    expect(await client.exists('/')).toBeDefined();
  });

  test('names a host that cannot be resolved', async () => {
    const client = new ZkClient({
      connectString: 'no-such-host.invalid:2181',
      connectTimeout: 5000,
      retry: { type: 'none' },
    });
    await expect(client.connect()).rejects.toThrow(/no-such-host\.invalid:2181/);
  });

  test('finds the working host among unreachable and silent ones, in any position', async () => {
    const hosts = [NOWHERE, await blackHole(), zk.connectString];
    for (let i = 0; i < 5; i++) {
      const client = await connect({
        connectString: hosts.join(','),
        connectTimeout: 1500,
        retry: { type: 'none' },
      });
      expect(client.state).toBe('CONNECTED');
      await client.close();
    }
  });

  test.each([
    ['', undefined],
    [', and does not report wrong credentials', [{ scheme: 'digest', user: 'a', password: 'b' }]],
  ] as const)('skips a server that closes the connection%s', async (_, auth) => {
    const rude = net.createServer((socket) => socket.destroy());
    await once(rude.listen(0, '127.0.0.1'), 'listening');
    const { port } = rude.address() as net.AddressInfo;
    const client = new ZkClient({
      connectString: `127.0.0.1:${port}`,
      auth: auth && [...auth],
      retry: { type: 'none' },
    });
    await expect(client.connect()).rejects.toThrow(
      /did not attach a session: the connection broke/,
    );
    rude.close();
  });
});

describe('a call that waits for the session', () => {
  test('rejects when the retry policy gives up', async () => {
    const way = await link();
    const client = await connect({
      connectString: way.connectString,
      retry: { type: 'fixed', delay: 100, maxRetries: 3 },
    });
    const log = recordStates(client);
    await way.down();
    await log.until('SUSPENDED');
    const started = performance.now();
    const reason = await reasonOf(client.session());
    expect(reason).toMatchObject({ code: 'CONNECTION', cause: { code: 'CONNECTION' } });
    expect(reason.message).toContain(way.connectString);
    expect(performance.now() - started).toBeGreaterThan(280);
  });

  test('rejects when its signal aborts', async () => {
    const way = await link();
    const client = await connect({ connectString: way.connectString });
    const log = recordStates(client);
    await way.down();
    await log.until('SUSPENDED');
    const controller = new AbortController();
    const waiting = reasonOf(client.session({ signal: controller.signal }));
    controller.abort(new Error('enough'));
    expect(await waiting).toMatchObject({ code: 'CANCELLED', cause: { message: 'enough' } });
    expect(await reasonOf(client.session({ signal: AbortSignal.abort() }))).toMatchObject({
      code: 'CANCELLED',
    });
  });
});

describe('close', () => {
  test('deletes ephemeral nodes at once', async () => {
    const [client, observer] = [await connect({ sessionTimeout: 20_000 }), await connect()];
    const node = await client.create(zk.path('e'), '', { mode: 'ephemeral' });
    const { watch } = await observer.watch(node);
    const closing = performance.now();
    await client.close();
    expect(await watch.fired).toBe('deleted');
    expect(performance.now() - closing).toBeLessThan(10_000);
  });

  test('deletes ephemeral nodes also while the connection is suspended', async () => {
    const [way, observer] = [await link(), await connect()];
    const client = await connect({ connectString: way.connectString, sessionTimeout: 20_000 });
    const session = await client.session();
    const node = await session.create(zk.path('e'), '', { mode: 'ephemeral' });
    const { watch } = await observer.watch(node);
    const log = recordStates(client);
    await way.down();
    await log.until('SUSPENDED');
    await way.up();
    const closing = performance.now();
    // The client may or may not have reconnected by now.
    await client.close();
    expect(await watch.fired).toBe('deleted');
    expect(performance.now() - closing).toBeLessThan(10_000);
  });

  test('rejects all pending and later requests', async () => {
    const client = await connect();
    const session = await client.session();
    const log = recordStates(client);
    const loss = new Promise((resolve) => session.onLost(resolve));
    const { watch } = await session.exists(zk.path('never'), { watch: true });
    const pending = [session.exists('/'), session.children('/'), client.get('/'), client.session()];
    const settled = Promise.allSettled(pending);
    const [first, second] = [client.close(), client.close()];
    for (const outcome of (await settled).slice(0, 2)) {
      expect(outcome).toMatchObject({ reason: { code: 'SHUTTING_DOWN' } });
    }
    await Promise.all([first, second]);
    expect(await loss).toBeInstanceOf(ShuttingDownError);
    expect(await watch.fired).toBe('session');
    expect(log.states).toEqual(['CLOSED']);
    for (const late of [client.connect(), client.session(), client.get('/'), session.exists('/')]) {
      expect(await reasonOf(late)).toBeInstanceOf(ShuttingDownError);
    }
    await session.guaranteedDelete('/x');
    expect([session.alive, session.trusted, session.connected]).toEqual([false, false, false]);
  });

  test('works before, during and after a connect() that cannot succeed', async () => {
    const never = new ZkClient({ connectString: zk.connectString });
    await never.close();
    expect(never.state).toBe('CLOSED');
    expect(await reasonOf(never.connect())).toBeInstanceOf(ShuttingDownError);

    const client = new ZkClient({ connectString: await blackHole(), connectTimeout: 3_600_000 });
    const connecting = reasonOf(client.connect());
    const waiting = reasonOf(client.session());
    await delay(100);
    await client.close();
    expect(await connecting).toBeInstanceOf(ShuttingDownError);
    expect(await waiting).toBeInstanceOf(ShuttingDownError);
  });

  test('works at any moment of a connect() that succeeds', async () => {
    for (let i = 0; i < 40; i++) {
      const client = new ZkClient({ connectString: zk.connectString });
      const connecting = client.connect().catch((reason: Error) => reason);
      await delay(i / 4);
      await client.close();
      const outcome = await connecting;
      if (outcome) expect(outcome).toBeInstanceOf(ShuttingDownError);
      expect(client.state).toBe('CLOSED');
    }
  });

  test('works while the client waits between two attempts to connect', async () => {
    const way = await link();
    const client = await connect({
      connectString: way.connectString,
      retry: { type: 'forever', delay: 3_600_000 },
    });
    const log = recordStates(client);
    await way.down();
    await log.until('SUSPENDED');
    const waiting = reasonOf(client.get('/'));
    await client.close();
    expect(await waiting).toBeInstanceOf(ShuttingDownError);
  });

  test('waits only briefly for a server that does not reply, and never blocks the event loop', async () => {
    const attempt = async () => {
      const way = await link();
      const client = await connect({ connectString: way.connectString });
      await way.silence();
      const histogram = monitorEventLoopDelay({ resolution: 5 });
      histogram.enable();
      const started = performance.now();
      await client.close();
      const took = performance.now() - started;
      histogram.disable();
      return { took, blocked: histogram.max / 1e6 };
    };
    let closing = await attempt();
    // A machine that stalls looks the same, but does not stall in every attempt.
    for (let i = 0; i < 4 && closing.blocked >= 1000; i++) closing = await attempt();
    expect(closing.took).toBeGreaterThan(900);
    expect(closing.took).toBeLessThan(3300);
    // The native client's own close() would block for one and a half seconds.
    expect(closing.blocked).toBeLessThan(1000);
  });
});

describe('the asynchronous context', () => {
  test('of a state listener is that of its registration, and requests do not pass on theirs', async () => {
    const storage = new AsyncLocalStorage<string>();
    const way = await link();
    const client = new ZkClient({ connectString: way.connectString, sessionTimeout: 10_000 });
    opened.push({ [Symbol.asyncDispose]: () => client.close() });
    await storage.run('connector', () => client.connect());
    const seen: unknown[] = [];
    client.onState(({ state }) => seen.push(`${state} ${storage.getStore()}`));
    storage.run('owner', () =>
      client.onState(({ state }) => seen.push(`${state} ${storage.getStore()}`)),
    );
    const log = recordStates(client);
    await storage.run('caller', async () => {
      await client.get('/');
      expect(storage.getStore()).toBe('caller');
      await way.cut();
      await log.until('SUSPENDED', 'RECONNECTED');
      expect(storage.getStore()).toBe('caller');
    });
    expect(seen).toEqual([
      'SUSPENDED undefined',
      'SUSPENDED owner',
      'RECONNECTED undefined',
      'RECONNECTED owner',
    ]);
  });
});
