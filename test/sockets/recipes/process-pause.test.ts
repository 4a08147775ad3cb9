import { fileURLToPath } from 'node:url';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { afterEach, expect, it } from 'vitest';
import { Child } from '../../../scripts/faults/child.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

// The other recipes are tested in virtual time, in test/integration/recipes/process-pause.test.ts.

const server = useServer();
const connect = useClients(server);
const PROGRAM = fileURLToPath(new URL('../../support/holder.mjs', import.meta.url));

const children: Child[] = [];
afterEach(() => Promise.all(children.splice(0).map((child) => child.kill())));

it('a process that SIGSTOP stopped for longer than its session holds nothing in the first code that runs after it continues', async () => {
  const path = server.path('stopped');
  const { connectString } = server;
  const options = { connectString, sessionTimeout: 1_000, path, pause: 800 };
  const child = new Child('holder', PROGRAM, [JSON.stringify(options)]);
  children.push(child);
  const token = await child.ask<bigint>('hold');
  const other = await connect();
  child.pause();
  const next = await new Mutex(other, path).acquire();
  child.resume();
  await expect.poll(() => child.ask('firstReadAfterPause')).toEqual({ held: false, aborted: true });
  // A signal that was read before the pause may abort one turn later. Fencing covers this gap.
  await expect.poll(() => child.ask('savedSignalAborted')).toBe(true);
  expect(next.fencingToken).toBeGreaterThan(token);
});
