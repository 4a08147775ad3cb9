import { describe, expect, it } from 'vitest';
import { serversDiffer } from '../../../lib/cli/doctor/clock.js';
import { connectedAt, readSrvr } from '../../../lib/cli/doctor/four-letter-word.js';
import type { OperationFacts } from '../../../lib/cli/doctor/operations.js';
import { quorumOf, sizeOf } from '../../../lib/cli/doctor/quorum.js';
import { checkRecipes, type Facts } from '../../../lib/cli/doctor/recipes.js';
import { type Check, reportOf, showReport, type Status } from '../../../lib/cli/doctor/report.js';
import { checkServers, membersOf, type ServerFinding } from '../../../lib/cli/doctor/servers.js';
import { checksOf } from '../../../lib/cli/doctor/tokens.js';
import type { ProbeSession } from '../../../lib/cli/doctor/probe-session.js';

const HEALTHY: Facts = {
  kind: 'zookeeper',
  tokens: { pzxidRises: true, zxidsRise: true },
  operations: {
    containers: 'yes',
    ttl: 'yes',
    addWatch: 'yes',
    removeWatch: 'yes',
    multi: 'yes',
    resumes: 'yes',
  },
  isSkewed: false,
};

describe('checkRecipes', () => {
  const statuses = (facts: Partial<Facts>) =>
    Object.fromEntries(
      checkRecipes({ ...HEALTHY, ...facts }).map(({ subject, status }) => [subject, status]),
    );
  const differences = (facts: Partial<Facts>) =>
    Object.fromEntries(Object.entries(statuses(facts)).filter(([, status]) => status !== 'ok'));

  it('is safe everywhere on a healthy server', () => {
    expect(differences({})).toEqual({});
  });

  it('is unsafe where fencing tokens come from a pzxid that does not rise', () => {
    const tokens = { pzxidRises: false, zxidsRise: true };
    expect(differences({ tokens })).toEqual({
      mutex: 'unsafe',
      'read/write lock': 'unsafe',
      'leader election': 'unsafe',
      partitions: 'unsafe',
    });
    // There the client takes them from writes.
    expect(statuses({ kind: 'unknown', tokens }).mutex).toBe('limit');
    const falling = { pzxidRises: true, zxidsRise: false };
    expect(statuses({ kind: 'unknown', tokens: falling })).toMatchObject({
      mutex: 'unsafe',
      'double barrier': 'unsafe',
      cache: 'unsafe',
      counter: 'ok',
    });
  });

  it('is unknown where a session did not end in time, whose end raises the pzxid', () => {
    const tokens = { pzxidRises: undefined, zxidsRise: true };
    expect(statuses({ tokens }).mutex).toBe('unknown');
    expect(statuses({ kind: 'unknown', tokens }).mutex).toBe('limit');
    const seen = { byClient: true, bySession: false, cversion: true, isRaftKeeper: false };
    expect(checksOf(tokens, seen, { kind: 'zookeeper' })[0]).toMatchObject({
      subject: 'pzxid',
      status: 'unknown',
    });
  });

  it.each([
    ['ttl', { 'persistent TTL node': 'unavailable' }],
    ['addWatch', { cache: 'limit' }],
  ] as const)('depends on the operation %s', (name, expected) => {
    expect(differences({ operations: { ...HEALTHY.operations, [name]: 'no' } })).toEqual(expected);
    const unknown = Object.fromEntries(Object.keys(expected).map((recipe) => [recipe, 'unknown']));
    const operations = { ...HEALTHY.operations, [name]: 'unknown' as const };
    expect(differences({ operations })).toEqual(unknown);
  });

  it('depends on transactions wherever znodes are created', () => {
    const withMulti = (multi: OperationFacts['multi']) =>
      differences({ operations: { ...HEALTHY.operations, multi } });
    expect(withMulti('no')).toEqual({
      mutex: 'limit',
      'read/write lock': 'limit',
      semaphore: 'limit',
      'leader election': 'limit',
      partitions: 'limit',
      counter: 'unavailable',
      transactions: 'unavailable',
    });
    const { cache: _, ...writing } = statuses({});
    for (const [multi, status] of [
      ['broken', 'unsafe'],
      ['unknown', 'unknown'],
    ] as const) {
      expect(withMulti(multi)).toEqual(
        Object.fromEntries(Object.keys(writing).map((recipe) => [recipe, status])),
      );
    }
  });

  it.each(['resumes', 'containers'] as const)('of a persistent node depends on %s', (name) => {
    const operations = { ...HEALTHY.operations, [name]: 'no' };
    expect(statuses({ operations })['persistent node']).toBe('limit');
    expect(statuses({ operations }).counter).toBe(name === 'containers' ? 'limit' : 'ok');
  });

  it('names each reason once, the worst only', () => {
    const operations = { ...HEALTHY.operations, ttl: 'no' as const };
    const [recipe] = checkRecipes({ ...HEALTHY, operations, isSkewed: true }).filter(
      ({ subject }) => subject === 'persistent TTL node',
    );
    expect(recipe!.found).toBe('the client cannot create znodes with a TTL there');
  });
});

it('serversDiffer compares the servers with each other, not with this machine', () => {
  const clock = (offsetMs: number): Check => ({
    ...{ check: 'clock', subject: 'zk1', status: 'ok', found: '' },
    data: { offsetMs, errorMs: 2 },
  });
  expect(serversDiffer([])).toBe(false);
  expect(serversDiffer([clock(5000)])).toBe(false);
  expect(serversDiffer([clock(5000), clock(5500)])).toBe(false);
  expect(serversDiffer([clock(-600), clock(600)])).toBe(true);
});

describe('readSrvr', () => {
  it.each([
    [
      'Zookeeper version: 3.8.0-5a02, built on 2022-02-25 08:49 UTC\nMode: leader\n',
      { title: 'ZooKeeper 3.8.0', version: '3.8.0-5a02', mode: 'leader' },
    ],
    [
      'ClickHouse Keeper version: v25.8.1.1-lts-0123\nMode: follower\n',
      { title: 'ClickHouse Keeper 25.8.1.1', version: 'v25.8.1.1-lts-0123', mode: 'follower' },
    ],
    [
      'RaftKeeper version: 2.3.0\n',
      { title: 'RaftKeeper 2.3.0', version: '2.3.0', mode: undefined },
    ],
    ['srvr is not executed because it is not in the whitelist.\n', undefined],
  ])('reads %j', (answer, expected) => {
    expect(readSrvr(answer)).toEqual(expected);
  });
});

it('connectedAt reads the time of the session from cons', () => {
  const answer = [
    ' /127.0.0.1:1[1](queued=0,recved=2,sent=2,sid=0x1000abc,lop=PING,est=1700000000001,to=30000)',
    ' /127.0.0.1:2[1](queued=0,recved=2,sent=2,sid=0x1000ab,lop=PING,est=1700000000002,to=30000)',
    ' /127.0.0.1:3[0](queued=0,recved=1,sent=0)',
  ].join('\n');
  expect(connectedAt(answer, '1000ab')).toBe(1700000000002);
  expect(connectedAt(answer, '1000')).toBeUndefined();
});

describe('membersOf', () => {
  const host = { host: 'zk', port: 2181, label: 'zk:2181' };
  const session = {} as ProbeSession;
  const finding = (ip: string, usable: boolean): ServerFinding => ({
    host,
    address: { ...host, ip },
    label: ip,
    ...(usable ? { session } : {}),
  });
  const labels = (...servers: ServerFinding[]) => membersOf(servers).map(({ label }) => label);

  it('counts a host with both families by the one that works, and all addresses of one family', () => {
    expect(labels(finding('127.0.0.1', true), finding('::1', false))).toEqual(['127.0.0.1']);
    expect(labels(finding('127.0.0.1', false), finding('::1', true))).toEqual(['::1']);
    expect(labels(finding('127.0.0.1', true), finding('::1', true))).toEqual(['127.0.0.1']);
    expect(labels(finding('10.0.0.1', true), finding('10.0.0.2', false))).toHaveLength(2);
    expect(labels(finding('fd00::1', false), finding('fd00::2', true))).toHaveLength(2);
  });

  it('reports a version that is unknown without a limit', () => {
    const usable = {
      ...finding('10.0.0.1', true),
      session: { timeout: 30_000, kind: 'zookeeper' } as ProbeSession,
      latency: { read: 1, sync: 2 },
      srvrFailure: 'srvr: srvr is not executed because it is not in the whitelist.',
    };
    const checks = (server: ServerFinding, timeout = 30_000) =>
      checkServers([server], [server], timeout);
    expect(checks(usable)).toMatchObject([
      { check: 'server', status: 'ok', found: 'session of 30 s; read 1 ms, sync 2 ms' },
      {
        ...{ check: 'version', status: 'unknown' },
        advice: expect.stringContaining('add srvr to 4lw.commands.whitelist'),
      },
    ]);
    const session = { timeout: 30_000, kind: 'clickhouse-keeper' } as ProbeSession;
    expect(checks({ ...usable, session }, 10_000)).toMatchObject([
      { advice: expect.stringContaining('coordination_settings.min_session_timeout_ms') },
      { advice: expect.stringContaining('add srvr to four_letter_word_white_list') },
    ]);
    expect(checks({ ...usable, latency: { read: 1, sync: 600 } })[0]!.status).toBe('limit');
    expect(checks({ ...usable, shortestTimeout: 7_500 })[0]!.status).toBe('ok');
    expect(checks({ ...usable, shortestTimeout: 8_000 })[0]).toMatchObject({
      ...{ status: 'limit', advice: expect.stringContaining('request 32 s') },
    });
    const srvr = readSrvr('Zookeeper version: 3.5.9-1, built\nMode: follower\n');
    expect(checks({ ...usable, srvr })).toMatchObject([
      { status: 'limit', advice: 'use ZooKeeper 3.6 or later' },
    ]);
  });

  it('does not report the address of a family that is not needed', () => {
    const server = { ...finding('::1', false), failure: 'refused' };
    expect(checkServers([server], [], 30_000)).toMatchObject([{ status: 'ok' }]);
    expect(checkServers([server], [server], 30_000)).toMatchObject([{ status: 'limit' }]);
  });
});

describe('quorumOf', () => {
  const servers = (working: string, down: number): ServerFinding[] =>
    [...working, ...'-'.repeat(down)].map((letter, index) => {
      const port = 2181 + index;
      const label = `zk${index + 1}:${port}`;
      const found: ServerFinding = { host: { host: `zk${index + 1}`, port, label }, label };
      const mode = { l: 'leader', f: 'follower', o: 'observer' }[letter];
      const srvr = { title: 'ZooKeeper 3.8.0', version: '3.8.0', mode };
      return letter === '-' ? found : { ...found, srvr, session: {} as ProbeSession };
    });

  const three = { voters: 3, observers: 0 };
  const threeAndTwo = { voters: 3, observers: 2 };
  const five = { voters: 5, observers: 0 };
  const ONE = 'if one more voter fails, no lock is granted';
  const UNKNOWN = 'how many more may fail is unknown';
  const SPARE = '1 more voter may fail before no lock is granted';

  it.each([
    ['3 voters and 2 observers', 'lffoo', 0, threeAndTwo, undefined],
    ['the 3 voters of an ensemble with observers', 'lff', 0, threeAndTwo, undefined],
    ['servers of an unknown ensemble', 'lf', 0, undefined, undefined],
    ['a voter down', 'lf', 1, three, ONE],
    ['a voter down, and observers', 'lfoo', 1, threeAndTwo, ONE],
    ['both observers down', 'lff', 2, threeAndTwo, SPARE],
    ['a voter of five down', 'lfff', 1, five, SPARE],
    ['3 of 5 listed', 'lff', 0, five, 'name all 5 voters'],
    ['3 of 5 listed, one down', 'lf', 1, five, `${UNKNOWN}; name all 5 voters`],
    ['4 names of 3 servers', 'lff', 1, three, UNKNOWN],
    ['a server without a mode', 'lf?o', 1, threeAndTwo, UNKNOWN],
    ['an unknown ensemble', 'lf', 1, undefined, UNKNOWN],
    ['observers instead of voters', 'loo', 0, threeAndTwo, 'name all 3 voters'],
  ] as const)('with %s', (_case, working, down, size, advice) => {
    const check = quorumOf(servers(working, down), size);
    expect(check.status).toBe(advice === undefined ? 'ok' : 'limit');
    if (advice === undefined) expect(check.advice).toBeUndefined();
    else expect(check.advice).toContain(advice);
  });

  it('says which servers are known', () => {
    const found = (size: Parameters<typeof quorumOf>[1], failure?: string) =>
      quorumOf(servers('lf', 0), size, failure).found;
    const listed = '2 of 2 servers of the connect string can be used';
    expect(found({ voters: 1, observers: 2 })).toBe(
      `${listed}; the ensemble has 1 voter and 2 observers`,
    );
    expect(found(undefined)).toBe(`${listed}; only the listed servers are known`);
    expect(found(undefined, 'denied')).toBe(
      `${listed}; only the listed servers are known (denied)`,
    );
  });

  it('counts the voters of a configuration', () => {
    const config = [
      'server.1=zk1:2888:3888:participant;0.0.0.0:2181',
      'server.2=zk2:2888:3888;2181',
      'server.3=zk3:2888:3888:observer;0.0.0.0:2181',
      'version=100000000',
    ].join('\n');
    expect(sizeOf(config)).toEqual({ voters: 2, observers: 1 });
    expect(sizeOf('')).toBeUndefined();
  });
});

describe('a report', () => {
  const about = { zookeeper: 'zk:2181', namespace: '', server: 'zookeeper' };
  const check = (status: Status, name: Check['check'] = 'server'): Check => ({
    check: name,
    subject: 'zk:2181',
    status,
    found: 'found',
    advice: status === 'ok' ? undefined : 'advice',
  });

  it.each([
    [['ok'], 'ok', 0],
    [['ok', 'limit'], 'limit', 1],
    [['unknown'], 'limit', 1],
    [['unavailable'], 'ok', 0],
    [['limit', 'unsafe', 'ok'], 'unsafe', 2],
  ] as const)('of %j has the result %s and the exit code %d', (all, result, exitCode) => {
    const checks = all.map((status) => check(status));
    expect(reportOf(about, checks)).toEqual({ result, exitCode, ...about, checks });
    // A version that is unknown does not count.
    expect(reportOf(about, [...checks, check('unknown', 'version')]).exitCode).toBe(exitCode);
  });

  it('shows the advice of consecutive checks once, and no control characters', () => {
    const checks = [check('limit'), { ...check('limit'), found: 'a\x1b[2Jb' }];
    const lines = showReport(reportOf(about, checks));
    expect(lines.filter((line) => line.includes('→ advice'))).toHaveLength(1);
    expect(lines.join('\n')).toContain('a?[2Jb');
  });
});
