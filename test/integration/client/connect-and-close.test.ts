import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  ConnectionError,
  ShuttingDownError,
  type ZkClient,
  type ZkClientOptions,
} from '../../../lib/client/index.js';
import { useClients, useLinks } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import { useServer } from '../../support/servers.js';
import { recordStates } from '../../support/sessions.js';
import { afterEach, it } from '../../support/virtual-time.js';

const zk = useServer();
// Registered before the hook of the clients, so that it runs after that hook.
const newLink = useLinks(zk);
const connect = useClients(zk);
const unconnected: ZkClient[] = [];
afterEach(async () => {
  await Promise.all(unconnected.splice(0).map((client) => client.close()));
});

function newClient(options: Partial<ZkClientOptions> = {}): ZkClient {
  const client = zk.newClient(options);
  unconnected.push(client);
  return client;
}

/** Connects a client, and then breaks its connection and refuses others. */
async function suspended(options: Partial<ZkClientOptions> = {}) {
  const link = await newLink();
  const client = await connect({ connectString: link.connectString, ...options });
  const log = recordStates(client);
  await link.down();
  await log.until('SUSPENDED');
  return { link, client, log };
}

const reasonOf = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('nothing was rejected');
    },
    (reason: Error) => reason,
  );

describe('connect', () => {
  it('can be called again after it failed', async () => {
    const link = await newLink();
    await link.down();
    const client = newClient({ connectString: link.connectString, retry: { type: 'none' } });
    await expect(client.connect()).rejects.toBeInstanceOf(ConnectionError);
    await expect(client.session()).rejects.toThrow(/connect\(\) has not succeeded/);
    await link.up();
    await client.connect();
    expect(client.state).toBe('CONNECTED');
    await client.connect();
  });

  it('waits for a server that starts before the retry policy gives up', async () => {
    const link = await newLink();
    await link.down();
    const retry = { type: 'fixed', delay: 100, maxRetries: 50 } as const;
    const client = newClient({ connectString: link.connectString, retry });
    const connecting = client.connect();
    await delay(250);
    await link.up();
    await connecting;
  });
});

describe('a call that waits for the session', () => {
  it('rejects when the retry policy gives up', async () => {
    const { client } = await suspended({ retry: { type: 'fixed', delay: 100, maxRetries: 3 } });
    const started = performance.now();
    const reason = await reasonOf(client.session());
    expect(reason).toMatchObject({ code: 'CONNECTION', cause: { code: 'CONNECTION' } });
    expect(performance.now() - started).toBeGreaterThan(280);
    if (isSimulated) expect(performance.now() - started).toBeLessThan(320);
  });

  it('rejects when its signal aborts', async () => {
    const { client } = await suspended();
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
  it('deletes ephemeral nodes at once', async () => {
    const [client, observer] = [await connect({ sessionTimeout: 20_000 }), await connect()];
    const node = await client.create(zk.path('e'), '', { mode: 'ephemeral' });
    const { watch } = await observer.watch(node);
    const closing = performance.now();
    await client.close();
    expect(await watch.fired).toBe('deleted');
    expect(performance.now() - closing).toBeLessThan(10_000);
  });

  it('deletes ephemeral nodes also while the connection is suspended', async () => {
    const [link, observer] = [await newLink(), await connect()];
    const client = await connect({ connectString: link.connectString, sessionTimeout: 20_000 });
    const node = await client.create(zk.path('e'), '', { mode: 'ephemeral' });
    const { watch } = await observer.watch(node);
    const log = recordStates(client);
    await link.down();
    await log.until('SUSPENDED');
    await link.up();
    const closing = performance.now();
    await client.close();
    expect(await watch.fired).toBe('deleted');
    expect(performance.now() - closing).toBeLessThan(10_000);
  });

  it('rejects all pending and later requests', async () => {
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

  it('works before and during a connect() that cannot succeed', async () => {
    const never = newClient();
    await never.close();
    expect(never.state).toBe('CLOSED');
    expect(await reasonOf(never.connect())).toBeInstanceOf(ShuttingDownError);

    const link = await newLink();
    await link.holdAll();
    const client = newClient({ connectString: link.connectString, connectTimeout: 3_600_000 });
    const connecting = reasonOf(client.connect());
    const waiting = reasonOf(client.session());
    await delay(100);
    await client.close();
    expect(await connecting).toBeInstanceOf(ShuttingDownError);
    expect(await waiting).toBeInstanceOf(ShuttingDownError);
  });

  it('works at any moment of a connect() that succeeds', async () => {
    for (let i = 0; i < 40; i++) {
      const client = newClient();
      const connecting = client.connect().catch((reason: Error) => reason);
      await delay(i / 4);
      await client.close();
      const outcome = await connecting;
      if (outcome) expect(outcome).toBeInstanceOf(ShuttingDownError);
      expect(client.state).toBe('CLOSED');
    }
  });

  it('works while the client waits between two attempts to connect', async () => {
    const { client } = await suspended({ retry: { type: 'forever', delay: 3_600_000 } });
    const waiting = reasonOf(client.get('/'));
    await client.close();
    expect(await waiting).toBeInstanceOf(ShuttingDownError);
  });

  it('waits about a second for a server that does not reply', async () => {
    const link = await newLink();
    const client = await connect({ connectString: link.connectString });
    await link.holdAll();
    const started = performance.now();
    await client.close();
    expect(performance.now() - started).toBeGreaterThan(900);
    if (isSimulated) expect(performance.now() - started).toBeLessThan(3300);
  });
});

describe('the asynchronous context', () => {
  it('of a state listener is that of its registration, and requests do not pass on theirs', async () => {
    const storage = new AsyncLocalStorage<string>();
    const link = await newLink();
    const client = newClient({ connectString: link.connectString, sessionTimeout: 10_000 });
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
      await link.cut();
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
