import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  type Session,
  SessionExpiredError,
  type ZkClientOptions,
} from '../../../lib/client/index.js';
import { isSimulated } from '../../support/environment.js';
import { useClients, useLinks } from '../../support/clients.js';
import { type TestLink, useServer } from '../../support/servers.js';
import { credentialsOf, recordStates } from '../../support/sessions.js';
import { it, testProcess } from '../../support/virtual-time.js';

const zk = useServer({ own: true });
// Registered before the hook of the clients, so that it runs after that hook.
const newLink = useLinks(zk);
const connect = useClients(zk);

/** Connects a client through a link of its own. */
async function behindLink(options: Partial<ZkClientOptions> = {}) {
  const link = await newLink();
  const client = await connect({ connectString: link.connectString, ...options });
  return { link, client, session: await client.session(), log: recordStates(client) };
}

const lossOf = (session: Session) =>
  new Promise<{ at: number; reason: Error }>((resolve) => {
    session.onLost((reason) => resolve({ at: performance.now(), reason }));
  });

/** Keeps the event loop busy. */
const block = (ms: number) =>
  isSimulated
    ? testProcess().block(ms)
    : Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

describe('a broken connection', () => {
  it('is restored in the same session, and its ephemeral nodes remain', async () => {
    const { link, client, session, log } = await behindLink();
    const node = await session.create(zk.path('stays'), '', { mode: 'ephemeral' });
    await link.cut();
    await log.until('SUSPENDED', 'RECONNECTED');
    expect(log.changes.map(({ sessionId }) => sessionId)).toEqual([session.id, session.id]);
    expect(log.changes[0].reason).toMatchObject({ code: 'CONNECTION' });
    expect(await client.session()).toBe(session);
    expect(await session.exists(node)).toMatchObject({ ephemeralOwner: session.id });
    expect(session.alive).toBe(true);
  });

  it('is restored repeatedly, within milliseconds', async () => {
    const { link, session, log } = await behindLink();
    const started = performance.now();
    for (let i = 1; i <= 5; i++) {
      await link.cut();
      await log.until(
        ...Array.from({ length: i }, () => ['SUSPENDED', 'RECONNECTED'] as const).flat(),
      );
    }
    if (isSimulated) expect(performance.now() - started).toBeLessThan(100);
    expect(session.alive).toBe(true);
  });

  it('makes every watch fire, so that its owner reads again', async () => {
    const { link, client, session } = await behindLink();
    const path = await session.create(zk.path('watched'));
    const watches = [
      (await session.get(path, { watch: true })).watch,
      (await session.children(path, { watch: true })).watch,
      (await session.exists(`${path}/none`, { watch: true })).watch,
    ];
    await link.cut();
    expect(await Promise.all(watches.map((watch) => watch.fired))).toEqual(
      Array(3).fill('session'),
    );
    const { watch } = await session.get(path, { watch: true });
    await client.set(path, 'x');
    expect(await watch.fired).toBe('changed');
  });

  it('rejects an unanswered request with an error that says whether it may have been applied', async () => {
    const { link, client, session } = await behindLink();
    const observer = await connect();
    const path = zk.path('lost-answer');
    await link.holdReplies();
    const requests = Promise.allSettled([
      session.create(path),
      client.set(path, 'x'),
      client.exists(path),
    ]);
    await expect.poll(async () => (await observer.exists(path))?.version).toBe(1);
    await link.cut();
    const [created, written, read] = await requests;
    const lost = { reason: { code: 'CONNECTION', maybeApplied: true } };
    expect([created, written]).toMatchObject([lost, lost]);
    // Only read requests are repeated.
    expect(read).toMatchObject({ value: { version: 1 } });
  });

  it('makes a session reject requests at once, and a client wait', async () => {
    const { link, client, session, log } = await behindLink();
    await link.down();
    await log.until('SUSPENDED');
    expect(session.connected).toBe(false);
    const path = zk.path('refused');
    await expect(session.create(path)).rejects.toMatchObject({
      code: 'CONNECTION',
      maybeApplied: false,
    });
    const waiting = client.create(path);
    await link.up();
    expect(await waiting).toBe(path);
  });

  it('leaves the session trusted, except under the policy "standard"', async () => {
    const lenient = await behindLink();
    const strict = await behindLink({ policy: 'standard' });
    let lost = 0;
    const distrust = new Promise((resolve) => strict.session.onUntrusted(resolve));
    lenient.session.onUntrusted(() => lost++);
    await Promise.all([lenient.link.down(), strict.link.down()]);
    expect(await distrust).toMatchObject({ code: 'CONNECTION' });
    expect([strict.session.trusted, strict.session.alive]).toEqual([false, true]);
    expect(await new Promise((resolve) => strict.session.onUntrusted(resolve))).toBeDefined();
    await lenient.log.until('SUSPENDED');
    expect([lenient.session.trusted, lost]).toEqual([true, 0]);
    await strict.link.up();
    await strict.log.until('RECONNECTED');
    expect(strict.session.trusted).toBe(true);
  });

  it('sends the credentials again', async () => {
    const auth = [{ scheme: 'digest' as const, user: 'a', password: 'b' }];
    const { link, session, log } = await behindLink({ auth });
    const path = await session.create(zk.path('auth'), 'x');
    await session.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'r' }]);
    await link.cut();
    await log.until('RECONNECTED');
    expect((await session.get(path)).data.toString()).toBe('x');
  });
});

it('a request whose result cannot be converted rejects', async () => {
  const session = await (await connect()).session();
  const failure = new Error('not converted');
  const fail = () => {
    throw failure;
  };
  await expect(session.request({ kind: 'exists', path: '/' }, '/', fail)).rejects.toBe(failure);
});

describe('guaranteedDelete', () => {
  it('deletes a node, ignores one that does not exist, and is repeated if its reply is lost', async () => {
    const { link, client, session, log } = await behindLink();
    const observer = await connect();
    const node = await session.create(zk.path('gone'), '', { mode: 'ephemeral' });
    await session.guaranteedDelete(node);
    expect(await client.exists(node)).toBeUndefined();
    await session.guaranteedDelete(node);

    await session.create(node, '', { mode: 'ephemeral' });
    await link.holdReplies();
    const withoutReply = session.guaranteedDelete(node);
    await expect.poll(() => observer.exists(node)).toBeUndefined();
    // The repeated delete finds this node.
    await observer.create(node);
    await link.cut();
    await withoutReply;
    await log.until('RECONNECTED');
    expect(await session.exists(node)).toBeUndefined();
  });

  it('is repeated after a lost connection, before any later create', async () => {
    const { link, session, log } = await behindLink();
    const observer = await connect();
    const node = await session.create(zk.path('again'), 'old', { mode: 'ephemeral' });
    await link.down();
    await log.until('SUSPENDED');
    await session.guaranteedDelete(node);
    expect(await observer.exists(node)).toBeDefined();
    await link.up();
    await log.until('RECONNECTED');
    // If the delete came after it, this create would fail.
    expect(await session.create(node, 'new', { mode: 'ephemeral' })).toBe(node);
    expect((await session.get(node)).data.toString()).toBe('new');
  });

  it('of an invalid path may be dropped', async () => {
    const session = await (await connect()).session();
    // An unhandled rejection would fail the test.
    void session.guaranteedDelete('/a\0');
    await expect(session.guaranteedDelete('/a\0')).rejects.toThrow('characters');
  });
});

describe('a session that the ensemble has ended', () => {
  it('is LOST as soon as the client reconnects, and a new session follows', async () => {
    const { client, session, log } = await behindLink();
    const loss = lossOf(session);
    const { watch } = await session.exists(zk.path('never'), { watch: true });
    await zk.expire(session);
    const { reason } = await loss;
    expect(reason).toBeInstanceOf(SessionExpiredError);
    expect(session.alive).toBe(false);
    expect(await watch.fired).toBe('session');
    await log.until('LOST', 'CONNECTED');
    const next = await client.session();
    expect(next.id).not.toBe(session.id);
    await expect(session.create(zk.path('late'))).rejects.toBe(reason);
    await session.guaranteedDelete('/anything');
    expect(await new Promise((resolve) => session.onLost(resolve))).toBe(reason);
    expect(await next.create(zk.path('new'))).toBeDefined();
  });

  it('rejects its pending requests', async () => {
    const { link, session } = await behindLink({ sessionTimeout: 4000 });
    await link.holdReplies();
    const loss = lossOf(session);
    const requests = Promise.allSettled([session.exists('/'), session.create(zk.path('x'))]);
    await zk.expire(session);
    for (const { status } of await requests) expect(status).toBe('rejected');
    await loss;
  });
});

describe('a client that receives nothing', () => {
  const T = 3000;

  it.each([
    ['because no server listens', (link: TestLink) => link.down(), (link: TestLink) => link.up()],
    [
      'because its server stopped replying',
      (link: TestLink) => link.holdAll(),
      (link: TestLink) => link.resume(),
    ],
  ])(
    'declares its session LOST three quarters of the session timeout after its last answered request, %s',
    async (_, fail, restore) => {
      const { link, client, session, log } = await behindLink({ sessionTimeout: T });
      expect(session.timeout).toBe(T);
      const loss = lossOf(session);
      const lastRequest = performance.now();
      await session.create(zk.path('x'));
      await fail(link);
      const { at, reason } = await loss;
      expect(reason).toBeInstanceOf(SessionExpiredError);
      expect(at - lastRequest).toBeGreaterThan(0.75 * T - 5);
      if (isSimulated) expect(at - lastRequest).toBeLessThan(0.75 * T + 5);
      expect(log.states.at(-1)).toBe('LOST');
      await restore(link);
      await log.until('LOST', 'CONNECTED');
      expect((await client.session()).id).not.toBe(session.id);
    },
  );

  it('keeps an idle session for longer than its timeout while the server replies', async () => {
    const { session, log } = await behindLink({ sessionTimeout: T });
    await delay(1.5 * T);
    expect(session.alive).toBe(true);
    expect(log.states).toEqual([]);
  });

  it('treats its session as lost in the first check after its process was paused for longer', async () => {
    const client = await connect({ sessionTimeout: 2000 });
    const [session, log] = [await client.session(), recordStates(client)];
    expect(session.alive).toBe(true);
    block(1600);
    expect(session.alive).toBe(false);
    expect(log.states).toEqual(['LOST']);
    await expect(session.create('/x')).rejects.toBeInstanceOf(SessionExpiredError);
    await log.until('LOST', 'CONNECTED');
  });
});

it('a restart of the server keeps the session', async () => {
  const client = await connect({ sessionTimeout: 20_000 });
  const session = await client.session();
  const node = await session.create(zk.path('restart'), '', { mode: 'ephemeral' });
  const log = recordStates(client);
  await zk.restart();
  await log.until('SUSPENDED', 'RECONNECTED');
  expect(await session.exists(node)).toMatchObject({ ephemeralOwner: session.id });
  if (client.transport === 'native') return;
  // The client sends this zxid in its next handshake. A server that has not reached it refuses the connection.
  const { stat } = await session.get(node);
  expect(credentialsOf(session).lastZxid).toBeGreaterThanOrEqual(stat.czxid);
});
