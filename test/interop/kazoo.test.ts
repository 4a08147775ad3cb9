import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { useServer } from '../support/servers.js';

const SCENARIOS = fileURLToPath(new URL('python/kazoo_scenarios.py', import.meta.url));

// Debian's package serves Debian's Python, which may not be the first one in the PATH.
const python = ['python3', '/usr/bin/python3'].find(
  (program) => spawnSync(program, ['-c', 'import kazoo']).status === 0,
);
if (!python)
  console.log('Left out: the interop tests with kazoo (no Python 3 with kazoo was found).');

describe.skipIf(!python)('Python’s kazoo uses a ZooKeeper server that provides', () => {
  const server = useServer();

  test.each([
    'nodes',
    'acls',
    'creator_acl',
    'transaction',
    'watchers',
    'lock',
    'read_write_lock',
    'semaphore',
    'election',
    'barrier',
    'double_barrier',
    'queue',
    'counter',
    'party',
    'lost_session',
  ])('its %s', async (scenario) => {
    const args = [SCENARIOS, server.connectString, scenario];
    const run = promisify(execFile)(python!, args, { timeout: 100_000 });
    expect((await run).stdout).toBe('done\n');
  });
});
