import { describe, expect, it } from 'vitest';
import { verdictOnQuorum, verdictOnTimeout } from '../../../lib/cli/doctor/examine.js';
import { reportOf, showReport } from '../../../lib/cli/doctor.js';
import {
  type Check,
  type Status,
  type UsableServer,
  verdictOn,
} from '../../../lib/cli/doctor/servers.js';

const check: Check = { check: 'server', subject: 'zk:2181', status: 'ok', message: 'found' };

/** A server with a session. */
const usable = (
  session: Partial<UsableServer['session']>,
  role: string | null = 'follower',
): UsableServer => ({
  check,
  role: role ?? undefined,
  options: { connectString: 'zk:2181' },
  session: {
    kind: 'zookeeper',
    config: undefined,
    timeout: 30_000,
    shortestTimeout: 4000,
    ...session,
  },
});

describe('verdictOnQuorum', () => {
  const config = [
    'server.1=zk1:2888:3888:participant;0.0.0.0:2181',
    'server.2=zk2:2888:3888;2181',
    'server.3=zk3:2888:3888:participant;0.0.0.0:2181',
    'server.4=zk4:2888:3888:observer;0.0.0.0:2181',
    'version=100000000',
  ].join('\n');
  const server = usable({ config });
  const down = { check };

  it.each([
    ['3 voters', [server, server, server], 'ok', '2 of the 3 voters of the ensemble must run'],
    ['one down', [server, down, server], 'limit', '2 of 3 listed servers can be used'],
    ['one of 3 listed', [server], 'limit', 'name all voters'],
    ['all down', [down, down], 'unsafe', '0 of 2 listed servers can be used'],
    ['an unreadable configuration', [usable({})], 'ok', '1 of 1 listed servers can be used'],
    ['a single server', [usable({}, 'standalone')], 'limit', 'run three servers'],
    ['a single server without srvr', [usable({ config: '' }, null)], 'limit', 'run three servers'],
  ] as const)('with %s', (_case, servers, status, message) => {
    expect(verdictOnQuorum(servers)).toEqual([status, expect.stringContaining(message)]);
  });
});

describe('verdictOnTimeout', () => {
  it.each([
    ['the requested one', 30_000, usable({}), 'ok', 'sessions time out after 30 s'],
    ['a shorter one', 60_000, usable({}), 'limit', 'lower the session timeout of 60 s'],
    ['a longer one', 2000, usable({ shortestTimeout: 0 }), 'limit', 'raise the session'],
    ['less than eight ticks', 6000, usable({ timeout: 6000 }), 'limit', 'request 16 s'],
    ['a server alone', 6000, usable({ timeout: 6000 }, 'standalone'), 'ok', 'after 6 s'],
  ] as const)('for %s', (_case, requested, server, status, message) => {
    expect(verdictOnTimeout([server], requested)).toEqual([
      status,
      expect.stringContaining(message),
    ]);
  });
});

it.each([
  ['Zookeeper version: 3.8.0-5a02', 'leader', 'ok', /3\.8\.0-5a02, leader$/],
  ['Zookeeper version: 3.5.9-83df', 'leader', 'limit', /use ZooKeeper 3\.6 or later$/],
  [
    'Zookeeper version: 3.8.0-embedded',
    'standalone',
    'limit',
    /standalone: a server for development/,
  ],
  ['ClickHouse Keeper version: v2.3.1', undefined, 'ok', /v2\.3\.1$/],
  [undefined, undefined, 'ok', /allow the four-letter word srvr/],
] as const)('the version %s with the role %s is %s', (version, role, status, message) => {
  expect(verdictOn(version, role)).toEqual([status, expect.stringMatching(message)]);
});

describe('a report', () => {
  const of = (status: Status): Check => ({ ...check, status });

  it.each([
    [['ok'], 'ok', 0],
    [['ok', 'limit'], 'limit', 1],
    [['unavailable'], 'ok', 0],
    [['limit', 'unsafe', 'ok'], 'unsafe', 2],
  ] as const)('of %j has the result %s and the exit code %d', (all, result, exitCode) => {
    expect(reportOf(all.map(of))).toMatchObject({ result, exitCode });
  });

  it('shows no control characters', () => {
    const text = showReport(reportOf([{ ...check, message: 'a\x1b[2Jb' }]));
    expect(text).toContain('a?[2Jb');
  });
});
