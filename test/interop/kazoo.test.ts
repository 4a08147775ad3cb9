import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { useServer } from '../support/servers.js';
import { KAZOO_SCENARIOS, PYTHON } from './programs.js';

describe('Python’s kazoo uses a ZooKeeper server that provides', () => {
  const server = useServer();

  test.each([
    'nodes',
    'acls',
    'transaction',
    'watchers',
    'recipes',
    'lock',
    'read_write_lock',
    'barrier',
    'queue',
    'counter',
    'party',
    'lost_session',
  ])('its %s', async (scenario) => {
    const args = [KAZOO_SCENARIOS, server.connectString, scenario];
    const run = promisify(execFile)(PYTHON, args, { timeout: 100_000 });
    expect((await run).stdout).toBe('done\n');
  });
});
