import { expect, it } from 'vitest';
import type { LockState } from '../../lib/cli/scan.js';
import { useCli } from '../support/cli.js';
import { useServer } from '../support/servers.js';
import { useCurator } from './curator.js';

// The command reads the whole tree.
const server = useServer({ own: true });
const cli = useCli(server);
const curator = useCurator(server);

it("the command line finds Curator's locks at any path, and revokes one", async () => {
  const root = server.path('jobs');
  expect(await curator.acquireRevocable('mutex', `mutex:${root}/nightly`)).toBe(true);
  await curator.acquire('read', `read:${root}/deep/table`);
  await curator.acquire('permit', `semaphore:${root}/permits:2:1`);
  await curator.acquire('lock', `semaphore-mutex:${root}/locks`);
  const { code, out } = await cli(['locks', '--json']).ended;
  expect(code).toBe(0);
  const seen = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as LockState);
  expect(seen.map(({ path, recipe, holders }) => [path, recipe, holders.length])).toEqual([
    [`${root}/deep/table`, 'read/write', 1],
    [`${root}/locks`, 'semaphore', 1],
    [`${root}/nightly`, 'mutex', 1],
    [`${root}/permits`, 'semaphore', 1],
  ]);
  // Some of Curator's locks write the address of the host, others nothing.
  for (const { holders } of seen) expect(holders[0]!.text).toMatch(/^[\d.]*$/);
  expect((await cli(['revoke', `${root}/nightly`]).ended).code).toBe(0);
  await curator.event('revoked mutex');
});
