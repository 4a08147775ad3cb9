import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { EmbeddedZooKeeper, type EmbeddedZooKeeperOptions } from 'nestjs-zookeeper/embedded';
import type { Acl, ZkClient } from 'nestjs-zookeeper/recipes';
import type { Check, Report } from '../../../lib/cli/doctor/report.js';
import { runCli, useCli } from '../../support/cli.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

// The tests list all znodes of the server.
const server = useServer({ own: true });
const connect = useClients(server);
const cli = useCli(server);

/** Longer than a name can be, so that no name server is asked. */
const NO_HOST = `${'x'.repeat(64)}.invalid`;

const doctor = (...args: string[]) =>
  runCli(['doctor', ...args], { ZOOKEEPER: server.connectString });

async function report(...args: string[]): Promise<{ code: number; report: Report }> {
  const { code, out, err } = await doctor('--json', ...args);
  expect(err).toBe('');
  const report = JSON.parse(out) as Report;
  expect(code).toBe(report.exitCode);
  return { code, report };
}

/** Returns the only check of a report with this name and, if given, subject. */
function checkIn({ checks }: Report, name: Check['check'], subject?: string): Check {
  const found = checks.filter(
    (each) => each.check === name && (subject === undefined || each.subject === subject),
  );
  expect(found).toHaveLength(1);
  return found[0]!;
}

const statuses = ({ checks }: Report) =>
  Object.fromEntries(checks.map(({ subject, status }) => [subject, status]));

/** Lists the znodes below the root, and of the namespaces in it. */
async function znodes(client: ZkClient): Promise<string[]> {
  await client.sync('/');
  const { children } = await client.children('/');
  const below = children.map(async (name) => {
    const read = client.children(`/${name}`);
    return (await read.catch(() => ({ children: [] }))).children.map((each) => `/${name}/${each}`);
  });
  return [...children.map((name) => `/${name}`), ...(await Promise.all(below)).flat()].sort();
}

/** Forwards connections to a server, but ends each that asks for an existing session. */
async function breakAtResumption(to: EmbeddedZooKeeper) {
  const [host, port] = to.connectString.split(':') as [string, string];
  const sockets: Socket[] = [];
  const proxy = createServer((client) => {
    client.once('data', (bytes) => {
      // The length of the frame, the version, the zxid and the timeout come before the session id.
      if (bytes.length >= 28 && bytes.readUInt32BE(0) < 100 && bytes.readBigInt64BE(20) !== 0n)
        return client.destroy();
      const server = connectTcp(Number(port), host);
      sockets.push(client, server);
      server.on('error', () => client.destroy()).write(bytes);
      client.pipe(server).pipe(client);
    });
    client.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    port: (proxy.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

describe('doctor', () => {
  it('finds nothing to change on a healthy server, and leaves no znode behind', async () => {
    const client = await connect();
    await client.create('/healthy');
    const before = await znodes(client);
    for (const args of [
      ['--namespace', 'healthy'],
      ['--namespace', 'not/yet/there'],
    ]) {
      const { code, out, err } = await doctor(...args);
      expect([code, err]).toEqual([0, '']);
      const lines = out.split('\n').filter((line) => line.startsWith('  '));
      expect(lines.filter((line) => !line.startsWith('  ok  '))).toEqual([]);
      expect(lines.length).toBeGreaterThan(25);
      expect(out).toContain('ZooKeeper 3.8.0, standalone; session of 30 s');
      expect(out).toContain('All checks passed: locks are safe there.\n');
      // oxlint-disable-next-line no-control-regex
      expect(out).not.toMatch(/\x1b/);
    }
    expect(await znodes(client)).toEqual(before);
  });

  it('prints the same result as JSON', async () => {
    const { report: result } = await report('--namespace', '/shop');
    const { checks, ...about } = result;
    const zookeeper = server.connectString;
    expect(about).toEqual({
      result: 'ok',
      exitCode: 0,
      zookeeper,
      namespace: '/shop',
      server: 'zookeeper',
    });
    expect(checkIn(result, 'server')).toEqual({
      check: 'server',
      subject: zookeeper,
      status: 'ok',
      found: expect.stringContaining('ZooKeeper 3.8.0, standalone'),
      data: {
        reachable: true,
        version: expect.stringMatching(/^3\.8\.0/),
        mode: 'standalone',
        sessionTimeout: 30_000,
        readMs: expect.any(Number),
        syncMs: expect.any(Number),
      },
    });
    const { data } = checkIn(result, 'clock');
    expect(Math.abs(data!.offsetMs as number)).toBeLessThan(1000);
    expect(checkIn(result, 'rights').data).toEqual({ znode: '/', exists: false, missing: [] });
    expect(new Set(checks.map(({ check }) => check))).toEqual(
      new Set(['server', 'quorum', 'clock', 'rights', 'tokens', 'operation', 'session', 'recipe']),
    );
  });

  it('reports a session timeout that the server changes', async () => {
    const { code, report: result } = await report('--session-timeout', '10m');
    expect(code).toBe(1);
    expect(checkIn(result, 'server')).toMatchObject({
      status: 'limit',
      advice: expect.stringMatching(
        /lowers the session timeout of 600 s: request 60 s, or change maxSessionTimeout/,
      ),
    });
  });

  const OWN = { scheme: 'digest', id: 'shop:8NOSlzNWsDG4TtSJXYvXN8WQLkI=' } as const;
  it.each<{ permissions: string; code: number; missing: string[]; recipes: string }>([
    { permissions: '', code: 2, missing: ['read', 'create'], recipes: 'unavailable' },
    { permissions: 'cd', code: 1, missing: ['read'], recipes: 'ok' },
    { permissions: 'rd', code: 2, missing: ['create'], recipes: 'unavailable' },
    { permissions: 'rc', code: 1, missing: ['delete'], recipes: 'unknown' },
    { permissions: 'rcd', code: 0, missing: [], recipes: 'ok' },
  ])(
    'names the rights that an ACL with "$permissions" denies: $missing',
    async ({ permissions, code, missing, recipes }) => {
      const client = await connect();
      const path = server.path('denied');
      await client.create(path);
      const open: Acl[] = permissions ? [{ scheme: 'world', id: 'anyone', permissions }] : [];
      await client.setAcl(path, [...open, { ...OWN, permissions: 'cdrwa' }]);
      const before = await znodes(client);
      const { code: exitCode, report: result } = await report('--namespace', path);
      expect(exitCode).toBe(code);
      const rights = checkIn(result, 'rights');
      expect(rights.data).toEqual({ znode: path, exists: true, missing });
      for (const right of missing) expect(rights.advice).toContain(right);
      expect(checkIn(result, 'recipe', 'mutex').status).toBe(recipes);
      expect(await znodes(client)).toEqual(before);
    },
  );

  it('uses the credentials', async () => {
    const client = await connect({
      auth: [{ scheme: 'digest', user: 'shop', password: 'secret' }],
    });
    const path = server.path('protected');
    await client.create(path);
    await client.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
    expect((await report('--namespace', path)).code).toBe(2);
    const right = await report('--namespace', path, '--auth', 'digest:shop:secret');
    expect(right.code).toBe(0);
    expect(JSON.stringify(right.report)).not.toContain('secret');
    const { children } = await client.children(path);
    expect(children).toEqual([]);

    await client.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }]);
    const open = await report('--namespace', path, '--auth', 'digest:shop:secret');
    expect(open.code).toBe(1);
    expect(checkIn(open.report, 'rights')).toMatchObject({
      status: 'limit',
      found: `clients without the credentials may create in ${path} too`,
    });
  });

  it('exits with 2 if no server can be used', async () => {
    const listener = createServer().listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const { port } = listener.address() as AddressInfo;
    listener.close();
    await once(listener, 'close');
    const { code, report: result } = await report('--zookeeper', `127.0.0.1:${port}`);
    expect(code).toBe(2);
    expect(result.server).toBeNull();
    expect(checkIn(result, 'server')).toMatchObject({
      status: 'limit',
      found: 'no connection to 127.0.0.1 (ECONNREFUSED)',
      data: { reachable: false },
    });
    expect(checkIn(result, 'quorum').status).toBe('unsafe');
    expect(checkIn(result, 'recipe', 'mutex').status).toBe('unavailable');
  });

  it('counts servers and names that do not exist', async () => {
    const servers = `${server.connectString},${NO_HOST}:2181`;
    const { code, report: result } = await report('--zookeeper', servers);
    // The server grants sessions, so its ensemble has a majority.
    expect(code).toBe(1);
    expect(checkIn(result, 'server', `${NO_HOST}:2181`).found).toContain('does not resolve');
    const quorum = checkIn(result, 'quorum');
    expect(quorum.data).toMatchObject({ usable: 1, listed: 2 });
    expect(quorum.advice).toContain('how many more may fail is unknown');
  });
});

describe('doctor on', () => {
  const servers: EmbeddedZooKeeper[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((each) => each.stop()));
  });
  const start = async (options: EmbeddedZooKeeperOptions) => {
    const started = await EmbeddedZooKeeper.start(options);
    servers.push(started);
    return started;
  };
  /** Examines a server, and expects that its znodes are the same afterwards. */
  const examine = async (started: EmbeddedZooKeeper, ...args: string[]) => {
    const { connectString } = started;
    const client = await connect({ connectString, allowUnsafeFencing: true });
    const before = await znodes(client);
    const { report: result } = await report('--zookeeper', connectString, ...args);
    expect(await znodes(client)).toEqual(before);
    return result;
  };

  it('ClickHouse Keeper finds limits', async () => {
    const result = await examine(await start({ server: 'clickhouse-keeper' }));
    expect([result.exitCode, result.server]).toEqual([1, 'clickhouse-keeper']);
    expect(statuses(result)).toMatchObject({
      quorum: 'ok',
      pzxid: 'limit',
      zxid: 'ok',
      cversion: 'limit',
      containers: 'limit',
      'TTL znodes': 'unavailable',
      'removal of watches': 'limit',
      'persistent watches': 'limit',
      transactions: 'ok',
      'session resume': 'limit',
      mutex: 'limit',
      counter: 'limit',
      'persistent node': 'limit',
      'persistent TTL node': 'unavailable',
    });
    expect(checkIn(result, 'tokens', 'pzxid').data).toEqual({
      onDelete: false,
      onSessionEnd: false,
    });
  });

  it('RaftKeeper finds it unsafe', async () => {
    const result = await examine(await start({ server: 'raftkeeper' }));
    expect([result.exitCode, result.server]).toEqual([2, 'raftkeeper']);
    expect(statuses(result)).toMatchObject({
      pzxid: 'limit',
      zxid: 'unsafe',
      'session resume': 'ok',
      mutex: 'unsafe',
    });
    expect(checkIn(result, 'tokens', 'pzxid').data).toEqual({
      onDelete: true,
      onSessionEnd: false,
    });
    expect(checkIn(result, 'operation', 'containers').found).toContain('not tried');
  });

  it('a server whose clock is 5 s ahead finds a limit, for each source of the time', async () => {
    const started = await start({ fourLetterWords: ['cons'] });
    await started.skipClock(5000);
    const result = await examine(started);
    expect(result.exitCode).toBe(1);
    const clock = checkIn(result, 'clock');
    expect(clock).toMatchObject({ status: 'limit', advice: expect.stringContaining('NTP') });
    expect(clock.data!.offsetMs).toBeGreaterThan(4000);
    expect(clock.data!.offsetMs).toBeLessThan(6000);
    expect(statuses(result)).toMatchObject({ mutex: 'ok', 'persistent TTL node': 'ok' });
  });

  it('servers of different ensembles finds them unsafe', async () => {
    const [one, other] = [await start({}), await start({})];
    const both = `${one.connectString},${other.connectString}`;
    const { code, report: result } = await report('--zookeeper', both);
    expect(code).toBe(2);
    expect(checkIn(result, 'quorum', 'ensemble')).toMatchObject({
      status: 'unsafe',
      found: expect.stringContaining('two clients can hold one lock'),
    });
    expect(checkIn(result, 'recipe', 'mutex').status).toBe('unsafe');
  });

  it('a server that closes the connection on each transaction finds it unsafe', async () => {
    const started = await start({});
    await started.faults.dropReply({ op: 'multi' });
    await started.faults.dropReply({ op: 'multi' });
    const result = await examine(started);
    expect(result.exitCode).toBe(2);
    expect(statuses(result)).toMatchObject({
      transactions: 'unsafe',
      mutex: 'unsafe',
      cache: 'ok',
    });
  });

  it.each(['multi', 'createContainer', 'createTTL', 'addWatch'] as const)(
    'a server that loses one reply to %s finds nothing to change',
    async (op) => {
      const started = await start({});
      await started.faults.dropReply({ op });
      const { exitCode, checks } = await examine(started);
      expect(checks.filter(({ status }) => status !== 'ok')).toEqual([]);
      expect(exitCode).toBe(0);
    },
  );

  it('a server that a session cannot reconnect to does not report lost sessions', async () => {
    await using proxy = await breakAtResumption(await start({}));
    const { code, report: result } = await report('--zookeeper', `127.0.0.1:${proxy.port}`);
    expect(code).toBe(1);
    expect(statuses(result)).toMatchObject({
      'session resume': 'unknown',
      mutex: 'unknown',
      transactions: 'ok',
    });
  });

  it('an ensemble with a silent server judges the recipes by the others', async () => {
    const [good, silent] = [await start({}), await start({})];
    await silent.faults.cut('replies');
    const both = `${good.connectString},${silent.connectString}`;
    // Shorter than the time until the silent server counts as failed.
    const args = ['--zookeeper', both, '--session-timeout', '2s'];
    const { code, report: result } = await report(...args);
    expect(code).toBe(1);
    expect(statuses(result)).toMatchObject({
      [good.connectString]: 'ok',
      [silent.connectString]: 'limit',
      mutex: 'ok',
    });
    expect(checkIn(result, 'server', silent.connectString).found).toContain(
      'no session within 5 s',
    );
  });

  it('a server that is lost reports the directory that it could not delete', async () => {
    const started = await start({});
    const client = await connect({ connectString: started.connectString });
    await client.create('/shop');
    await started.faults.delay(50);
    const args = ['--zookeeper', started.connectString, '--namespace', 'shop'];
    const directory = async () => {
      for (;;) {
        const { children } = await client.children('/shop');
        for (const name of children) {
          const { children: inside } = await client
            .children(`/shop/${name}`)
            .catch(() => ({ children: [] }));
          if (inside.length > 0) return name;
        }
      }
    };
    for (const signal of [undefined, 'SIGINT'] as const) {
      const running = cli(['doctor', '--json', ...args]);
      const name = await directory();
      const restore = await started.faults.refuseConnections();
      if (signal) running.child.kill(signal);
      const { code, out, err } = await running.ended;
      await restore();
      const found = `/shop/${name} was not deleted (`;
      if (signal) {
        expect([code, out]).toEqual([130, '']);
        expect(err).toMatch(/^nestjs-zookeeper: interrupted; .*\n$/);
        expect(err).toContain(found);
      } else {
        expect([code, err]).toEqual([1, '']);
        const left = checkIn(JSON.parse(out) as Report, 'probe', 'directory');
        expect(left).toMatchObject({ status: 'limit', found: expect.stringContaining(found) });
      }
      await client.delete(`/shop/${name}`).catch(() => {});
    }
  });

  it('a server that is lost before the directory was created reports no directory', async () => {
    const started = await start({});
    const client = await connect({ connectString: started.connectString });
    await client.create('/shop');
    const { watch } = await client.watchChildren('/shop');
    await started.faults.delay(50);
    const args = ['--zookeeper', started.connectString, '--namespace', 'shop'];
    const running = cli(['doctor', '--json', ...args]);
    // The probe of the rights.
    expect(await watch.fired).toBe('child');
    await started.faults.refuseConnections();
    const { code, out } = await running.ended;
    expect(code).toBe(1);
    const probes = (JSON.parse(out) as Report).checks.filter(({ check }) => check === 'probe');
    expect(probes.map(({ subject }) => subject)).toEqual(['probes']);
  });

  it('a slow server deletes its znodes after SIGTERM', async () => {
    const started = await start({});
    const client = await connect({ connectString: started.connectString });
    await client.create('/shop');
    const { watch } = await client.watchChildren('/shop');
    await started.faults.delay(50);
    const { connectString } = started;
    const running = cli(['doctor', '--zookeeper', connectString, '--namespace', 'shop']);
    // The probe of the rights, and later the directory of the other probes.
    expect(await watch.fired).toBe('child');
    await expect
      .poll(async () => (await client.children('/shop')).children, { interval: 5 })
      .toHaveLength(1);
    running.child.kill('SIGTERM');
    const err = 'nestjs-zookeeper: interrupted\n';
    expect(await running.ended).toEqual({ code: 143, out: '', err });
    expect((await client.children('/shop')).children).toEqual([]);
  });
});
