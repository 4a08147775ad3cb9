import { describe, expect, test } from 'vitest';
import { runProgram } from '../../support/compiled-client.js';
import { useLinks } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

// Operations that make the native client abort, hang or corrupt the event loop, performed through
// this library. Each program runs in a process of its own, so that a test can observe an abort.

const zk = useServer();
const link = useLinks(zk);

const PRELUDE = `
  import { once } from 'node:events';
  import net from 'node:net';
  import { setTimeout as delay } from 'node:timers/promises';
  import { BadOptionError, ZkClient } from './index.js';
  const { ZK, ROOT, ZK_TRANSPORT: transport } = process.env;
  const open = async (options) => {
    const client = new ZkClient({ connectString: ZK, transport, sessionTimeout: 10_000, ...options });
    await client.connect();
    return client;
  };
  const state = (client, wanted) => new Promise((resolve) => {
    const forget = client.onState((change) => {
      if (change.state !== wanted) return;
      forget();
      resolve();
    });
  });
  const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
`;

async function run(
  body: string,
  env: Record<string, string> = {},
  onLine?: (line: string) => void,
) {
  const { code, signal, stdout, stderr } = await runProgram(
    PRELUDE + body,
    {
      ZK: zk.connectString,
      ROOT: zk.path('hazard'),
      ...env,
    },
    onLine,
  );
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
  return stdout.trim();
}

test('no argument that crashes the native client ever reaches it', async () => {
  const output = await run(`
    const client = await open();
    const session = await client.session();
    await client.create(ROOT);
    const detached = new Uint8Array(8);
    structuredClone(detached.buffer, { transfer: [detached.buffer] });
    // The values of each kind that are refused are tested in test/unit/client/validation.test.ts.
    const paths = [undefined, Symbol('p'), 'abc', '/nul\\0tail', '/\\u{1F600}', '/' + 'a'.repeat(1200000)];
    const datas = [null, 1n, { a: 1 }, new Uint16Array(2), detached, Buffer.alloc(4e6), 'x'.repeat(1100000)];
    const versions = [null, 1n, Symbol('v'), 1.5, 2 ** 31];
    const modes = [null, 1n, Symbol('m'), 'EPHEMERAL'];
    const acls = [null, [], [null], [{ scheme: 'world', id: 'anyone', permissions: Symbol('p') }]];
    const calls = [];
    for (const target of [client, session]) {
      for (const path of paths) {
        for (const name of ['create', 'delete', 'get', 'exists', 'children', 'sync']) calls.push(() => target[name](path));
        calls.push(() => target.set(path, 'x'), () => target.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]));
      }
      for (const data of datas) calls.push(() => target.create(ROOT + '/x', data), () => target.set(ROOT, data));
      for (const version of versions) {
        calls.push(() => target.delete(ROOT, version), () => target.set(ROOT, '', version));
        calls.push(() => target.setAcl(ROOT, [{ scheme: 'world', id: 'anyone', permissions: 'r' }], version));
      }
      for (const mode of modes) calls.push(() => target.create(ROOT + '/x', '', { mode }));
      for (const acl of acls) calls.push(() => target.setAcl(ROOT, acl));
    }
    for (const path of paths) {
      calls.push(() => session.guaranteedDelete(path), () => client.ensureContainers(path));
      calls.push(() => client.watch(path), () => client.watchExists(path), () => client.watchChildren(path));
    }
    for (const options of [null, 'x', [], 1n, { wath: true }]) {
      calls.push(() => client.create(ROOT + '/x', '', options), () => session.get('/', options), () => session.exists('/', options),
        () => session.children('/', options), () => client.session(options));
    }
    for (const watch of [null, 1, 1n, Symbol('w'), 'true']) calls.push(() => session.get('/', { watch }), () => session.exists('/', { watch }));
    for (const signal of [null, {}, 'x', 1n, Symbol('s')]) calls.push(() => client.session({ signal }));
    let refused = 0;
    for (const call of calls) {
      // Refused by a rejection, never by an exception or an answer of the server.
      const outcome = await call().then(() => 'accepted', (error) => error);
      if (outcome instanceof BadOptionError) refused++;
      else console.log(call.toString(), outcome);
    }
    const alive = await client.exists(ROOT);
    console.log(refused === calls.length, alive.numChildren);
    await client.close();`);
  expect(output).toBe('true 0');
});

describe('close() of a client', () => {
  test.each([
    ['in the reply to a request', `await session.exists('/'); await client.close();`],
    [
      'in many replies at once',
      `await Promise.allSettled(Array.from({ length: 20 }, () => session.exists('/').then(() => client.close())));`,
    ],
    [
      'when a shared watch fires',
      `await session.create(ROOT);
       const watches = await Promise.all([session.get(ROOT, { watch: true }), session.children(ROOT, { watch: true }), session.get(ROOT, { watch: true })]);
       const closed = Promise.all(watches.map(({ watch }) => watch.fired.then(() => client.close())));
       await session.delete(ROOT).catch(() => {});
       await closed;`,
    ],
    [
      'in a state listener that close() calls',
      `client.onState(() => void client.close()); session.onLost(() => void client.close()); await client.close();`,
    ],
    [
      'with a thousand requests in flight',
      `const all = Promise.allSettled(Array.from({ length: 1000 }, () => session.create(ROOT + 'e-', 'x'.repeat(1000), { mode: 'ephemeral-sequential' })));
       await client.close();
       await all;`,
    ],
  ])('%s lets the process exit normally', async (_, body) => {
    const output = await run(`
      const client = await open();
      const session = await client.session();
      ${body}
      console.log(client.state);`);
    expect(output).toBe('CLOSED');
  });
});

describe('a lost connection', () => {
  test('may be followed by new sockets and clients, opened in any callback', async () => {
    const way = await link();
    const running = run(
      `
      const echo = net.createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
      await once(echo, 'listening');
      const client = await open();
      const session = await client.session();
      const echoes = [];
      const dial = () => echoes.push(new Promise((resolve, reject) => {
        const socket = net.connect(echo.address().port, '127.0.0.1', () => socket.write('hi'));
        socket.on('data', () => resolve(socket.end())).on('error', reject);
      }));
      const others = [];
      client.onState(({ state }) => {
        dial();
        if (state === 'SUSPENDED') others.push(open({ connectString: process.env.DIRECT }));
      });
      const { watch } = await session.exists(ROOT, { watch: true });
      const fired = watch.fired.then(dial);
      for (let i = 0; i < 3; i++) {
        const back = state(client, 'RECONNECTED');
        console.log('cut');
        // In flight all the time, so that some are when it comes.
        let over = false;
        void back.then(() => (over = true));
        while (!over) await Promise.all(Array.from({ length: 5 }, () => session.exists('/').catch(() => dial()))).then(() => delay(1));
      }
      await fired;
      await Promise.all(echoes);
      for (const other of await Promise.all(others)) {
        await other.exists('/');
        await other.close();
      }
      console.log(echoes.length > 6, others.length, (await client.session()) === session);
      await client.close();
      echo.close();`,
      { ZK: way.connectString, DIRECT: zk.connectString },
      (line) => void (line === 'cut' && way.cut()),
    );
    expect(await running).toBe('cut\ncut\ncut\ntrue 3 true');
  });

  test('is detected if it was lost while the event loop was blocked', async () => {
    const way = await link();
    const running = run(
      `
      const client = await open();
      const session = await client.session();
      const back = state(client, 'RECONNECTED');
      const echo = net.createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
      await once(echo, 'listening');
      await new Promise((resolve) => process.stdout.write('ready\\n', resolve));
      block(1500);
      const requests = [session.exists('/')];
      block(50);
      // The native client sends into a dead socket here, and closes its descriptor without a word.
      for (let i = 0; i < 3; i++) requests.push(session.create(ROOT + '/x'));
      const settled = Promise.allSettled(requests);
      const socket = net.connect(echo.address().port, '127.0.0.1', () => socket.write('hi'));
      await once(socket, 'data');
      socket.destroy();
      echo.close();
      const outcomes = await settled;
      await back;
      console.log(outcomes.every(({ reason }) => reason?.code === 'CONNECTION'), (await client.session()) === session);
      await client.close();`,
      { ZK: way.connectString },
      (line) => void (line === 'ready' && way.cut()),
    );
    expect(await running).toBe('ready\ntrue true');
  });

  test('is restored with more than one mebibyte of watched paths', async () => {
    const way = await link();
    const running = run(
      `
      const client = await open();
      const session = await client.session();
      const name = '/' + 'x'.repeat(1000);
      const watches = [];
      for (let i = 0; i < 1500; i++) watches.push(session.exists(ROOT + name + i, { watch: true }));
      const fired = Promise.all((await Promise.all(watches)).map(({ watch }) => watch.fired));
      const back = state(client, 'RECONNECTED');
      console.log('ready');
      await back;
      console.log(new Set(await fired).size, (await client.session()) === session);
      await client.close();`,
      { ZK: way.connectString },
      (line) => void (line === 'ready' && way.cut()),
    );
    expect(await running).toBe('ready\n1 true');
  });
});
