import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { EmbeddedZooKeeper, type EmbeddedZooKeeperOptions } from 'nestjs-zookeeper/embedded';
import type { Acl, ZkClient } from 'nestjs-zookeeper/recipes';
import type { Report } from '../../../lib/cli/doctor.js';
import type { Check } from '../../../lib/cli/doctor/servers.js';
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

describe('doctor', () => {
  it('finds only that the server is alone and for development, and leaves no znode behind', async () => {
    const client = await connect();
    await client.create('/healthy');
    const before = await znodes(client);
    for (const namespace of ['healthy', 'not/yet/there']) {
      const { code, out, err } = await doctor('--namespace', namespace);
      expect([code, err]).toEqual([1, '']);
      const lines = out.split('\n');
      expect(lines.splice(-3)).toEqual(['', 'Locks work there, with the limits above.', '']);
      expect(lines.filter((line) => !line.startsWith('ok '))).toEqual([
        expect.stringMatching(/^limit .+ 3\.8\.0-embedded, standalone: a server for development/),
        expect.stringMatching(/^limit +quorum +1 of 1 .+; a single server: .+ run three servers$/),
      ]);
      expect(lines.length).toBeGreaterThan(15);
    }
    expect(await znodes(client)).toEqual(before);
  });

  it('prints the same result as JSON', async () => {
    const { report: result } = await report('--namespace', '/shop');
    const { checks, ...about } = result;
    expect(about).toEqual({ result: 'limit', exitCode: 1 });
    expect(checkIn(result, 'server')).toEqual({
      check: 'server',
      subject: server.connectString,
      status: 'limit',
      message:
        'Zookeeper version: 3.8.0-embedded, standalone: a server for development, do not use it in production',
    });
    expect(new Set(checks.map(({ check }) => check))).toEqual(
      new Set(['server', 'quorum', 'kind', 'timeout', 'rights', 'clock', 'recipe']),
    );
  });

  it('reports a session timeout that the server changes', async () => {
    const { code, report: result } = await report('--session-timeout', '10m');
    expect(code).toBe(1);
    expect(checkIn(result, 'timeout')).toMatchObject({
      status: 'limit',
      message: expect.stringContaining('lower the session timeout of 600 s: request 60 s'),
    });
  });

  const OWN = { scheme: 'digest', id: 'shop:8NOSlzNWsDG4TtSJXYvXN8WQLkI=' } as const;
  it.each<{ permissions: string; code: number; missing: string; tries: boolean }>([
    { permissions: '', code: 2, missing: 'read and to create', tries: false },
    { permissions: 'cd', code: 1, missing: 'read', tries: true },
    { permissions: 'rd', code: 2, missing: 'create', tries: false },
    { permissions: 'rc', code: 1, missing: 'delete', tries: false },
  ])(
    'names the rights that an ACL with "$permissions" denies: $missing',
    async ({ permissions, code, missing, tries }) => {
      const client = await connect();
      const path = server.path('denied');
      await client.create(path);
      const open: Acl[] = permissions ? [{ scheme: 'world', id: 'anyone', permissions }] : [];
      await client.setAcl(path, [...open, { ...OWN, permissions: 'cdrwa' }]);
      const before = await znodes(client);
      const { code: exitCode, report: result } = await report('--namespace', path);
      expect(exitCode).toBe(code);
      expect(checkIn(result, 'rights').message).toContain(
        `the ACL of ${path} denies the right to ${missing}:`,
      );
      expect(result.checks.some(({ check }) => check === 'recipe')).toBe(tries);
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
    expect(checkIn(right.report, 'rights')).toMatchObject({ status: 'ok' });
    expect(JSON.stringify(right.report)).not.toContain('secret');
    const { children } = await client.children(path);
    expect(children).toEqual([]);

    await client.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }]);
    const open = await report('--namespace', path, '--auth', 'digest:shop:secret');
    expect(open.code).toBe(1);
    expect(checkIn(open.report, 'rights')).toMatchObject({
      status: 'limit',
      message: expect.stringContaining(`clients without the credentials may create in ${path} too`),
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
    expect(result.checks).toMatchObject([
      { check: 'server', status: 'limit', message: expect.stringContaining('ECONNREFUSED') },
      { check: 'quorum', status: 'unsafe' },
    ]);
  });

  it('counts names that do not resolve', async () => {
    const servers = `${server.connectString},${NO_HOST}:2181`;
    const { code, report: result } = await report('--zookeeper', servers);
    // The server grants sessions, so its ensemble has a majority.
    expect(code).toBe(1);
    expect(checkIn(result, 'server', `${NO_HOST}:2181`).message).toContain('does not resolve');
    expect(checkIn(result, 'quorum').message).toContain('1 of 2 listed servers');
  });
});

describe('doctor on', () => {
  const servers: EmbeddedZooKeeper[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((each) => each.stop()));
  });
  const start = async (options: EmbeddedZooKeeperOptions = {}) => {
    const started = await EmbeddedZooKeeper.start(options);
    servers.push(started);
    return started;
  };
  /** Examines a server, and expects that its znodes are the same afterwards. */
  const examine = async ({ connectString }: EmbeddedZooKeeper) => {
    const client = await connect({ connectString });
    const before = await znodes(client);
    const { report: result } = await report('--zookeeper', connectString);
    expect(await znodes(client)).toEqual(before);
    return result;
  };

  it('ClickHouse Keeper finds limits', async () => {
    const result = await examine(await start({ server: 'clickhouse-keeper' }));
    expect(result.exitCode).toBe(1);
    expect(result.checks.filter(({ status }) => status !== 'ok')).toMatchObject([
      { check: 'server', status: 'limit' },
      { subject: 'quorum', status: 'limit' },
      { subject: 'clickhouse-keeper', status: 'limit' },
      {
        subject: 'persistent TTL node',
        status: 'unavailable',
        message: expect.stringContaining('TTLs need Apache ZooKeeper'),
      },
    ]);
  });

  it('a server whose clock is ahead finds a limit', async () => {
    const started = await start();
    await started.skipClock(60_000);
    const result = await examine(started);
    expect(result.exitCode).toBe(1);
    expect(checkIn(result, 'clock')).toMatchObject({
      status: 'limit',
      message: expect.stringMatching(/^the server is \d+ s ahead of this machine: synchronize/),
    });
  });

  it('servers of different ensembles finds them unsafe', async () => {
    const [one, other] = [await start(), await start()];
    const both = `${one.connectString},${other.connectString}`;
    const { code, report: result } = await report('--zookeeper', both);
    expect(code).toBe(2);
    expect(checkIn(result, 'ensemble')).toMatchObject({
      status: 'unsafe',
      message: expect.stringContaining('two clients can hold one lock'),
    });
    const client = await connect({ connectString: one.connectString });
    expect(await znodes(client)).toEqual(['/zookeeper', '/zookeeper/config', '/zookeeper/quota']);
  });

  it.each([
    [1, 'limit', 'ok'],
    [2, 'unsafe', 'unsafe'],
  ])(
    'a server that loses a reply to a recipe %s times has the result %s',
    async (replies, expected, status) => {
      const started = await start();
      for (let lost = 0; lost < replies; lost++)
        await started.faults.dropReply({ op: 'createTTL' });
      const result = await examine(started);
      expect(result.result).toBe(expected);
      expect(checkIn(result, 'recipe', 'persistent TTL node').status).toBe(status);
      expect(checkIn(result, 'recipe', 'mutex').status).toBe('ok');
    },
  );

  /** Starts the command on a slow server, and resolves when its directory has a child: the recipes run. */
  const startOn = async (started: EmbeddedZooKeeper) => {
    const { connectString } = started;
    const client = await connect({ connectString });
    await client.create('/shop');
    await started.faults.delay(50);
    const args = ['doctor', '--json', '--zookeeper', connectString, '--namespace', 'shop'];
    const running = cli(args);
    for (;;) {
      const { children } = await client.children('/shop');
      for (const name of children) {
        const stat = await client.exists(`/shop/${name}`);
        if (stat && stat.numChildren > 0) return { client, running, name };
      }
    }
  };

  it.each([undefined, 'SIGINT'] as const)(
    'a server that is lost reports the directory that it could not delete (signal: %s)',
    async (signal) => {
      const started = await start();
      const { running, name } = await startOn(started);
      await started.faults.refuseConnections();
      if (signal) running.child.kill(signal);
      const { code, out, err } = await running.ended;
      const found = `/shop/${name} was not deleted (`;
      if (signal) {
        expect([code, out]).toEqual([130, '']);
        expect(err).toMatch(/^nestjs-zookeeper: interrupted; .*\n$/);
        expect(err).toContain(found);
      } else {
        expect([code, err]).toEqual([1, '']);
        const { status, message } = checkIn(JSON.parse(out) as Report, 'cleanup');
        expect(status).toBe('limit');
        expect(message).toContain(found);
      }
    },
  );

  it('a slow server deletes its znodes after SIGTERM', async () => {
    const { client, running } = await startOn(await start());
    running.child.kill('SIGTERM');
    const err = 'nestjs-zookeeper: interrupted\n';
    expect(await running.ended).toEqual({ code: 143, out: '', err });
    await client.sync('/');
    expect((await client.children('/shop')).children).toEqual([]);
  });
});
