import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import {
  LeaderLatch,
  LeaderSelector,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { Child } from '../../support/harness.js';
import { useServer } from '../../support/servers.js';

// A process was paused for longer than its session timeout, so that other processes hold its locks.

const server = useServer();
const connect = useClients(server);
const SESSION_TIMEOUT = 1_000;
/** The timeout of a session that must survive the pause, on a busy machine too. */
const LONG_TIMEOUT = 8_000;
const PROGRAM = fileURLToPath(new URL('../../support/holder.mjs', import.meta.url));

interface Look {
  /** The signal as it was read before the pause. */
  saved: boolean;
  /** The signal as it is read now. */
  aborted: boolean;
  held: boolean;
}

const children: Child[] = [];
afterEach(() => Promise.all(children.splice(0).map((child) => child.kill())));

async function holder(transport: string, root: string, sessionTimeout = SESSION_TIMEOUT) {
  const { connectString } = server;
  const child = new Child('holder', PROGRAM, [
    JSON.stringify({ connectString, sessionTimeout, transport, root }),
  ]);
  children.push(child);
  return { child, tokens: await child.ask<Record<string, bigint>>('hold') };
}

/** Acquires everything that the process held, and returns the fencing tokens. */
async function takeAll(client: ZkClient, root: string): Promise<Record<string, bigint>> {
  const path = (name: string) => `${root}/${name}`;
  const locks = {
    mutex: new Mutex(client, path('mutex')),
    read: new ReadWriteLock(client, path('read')).write,
    write: new ReadWriteLock(client, path('write')).write,
    semaphore: new Semaphore(client, path('semaphore'), { permits: 1 }),
    'non-reentrant': new NonReentrantMutex(client, path('non-reentrant')),
    multi: new MultiLock([new Mutex(client, path('multi')), new Mutex(client, path('multi-2'))]),
  };
  const latch = new LeaderLatch(client, path('latch'));
  latch.start();
  const selected = new Promise<bigint>((resolve) => {
    new LeaderSelector(client, path('selector'), (term) => resolve(term.fencingToken)).start();
  });
  const granted = await Promise.all(
    Object.entries(locks).map(async ([kind, lock]) => {
      return [kind, (await lock.acquire()).fencingToken] as const;
    }),
  );
  return {
    ...Object.fromEntries(granted),
    latch: (await latch.await()).fencingToken,
    selector: await selected,
  };
}

/** Returns the same value for each kind of lease. */
function all(look: Partial<Look>, seen: Record<string, Look>) {
  return Object.fromEntries(Object.keys(seen).map((kind) => [kind, expect.objectContaining(look)]));
}

describe.each(['native', 'wire'])('over %s', (transport) => {
  it('a stopped process holds nothing in the first code that runs after it continues', async () => {
    const root = server.path(`stopped-${transport}`);
    const { child, tokens } = await holder(transport, root);
    const other = await connect();
    child.pause();
    const next = await takeAll(other, root);
    child.resume();
    let seen: Record<string, Look> | undefined;
    await expect.poll(async () => (seen = await child.ask('seen'))).toBeDefined();
    expect(Object.keys(seen!)).toEqual(Object.keys(tokens));
    expect(seen).toEqual(all({ held: false, aborted: true }, seen!));
    // A signal that was read before the pause may abort one turn later. Fencing covers this gap.
    const later = await child.ask<Record<string, Look>>('later');
    expect(later).toEqual(all({ saved: true }, later));
    for (const [kind, token] of Object.entries(tokens)) expect(next[kind]).toBeGreaterThan(token);
  });

  it('a process whose event loop was blocked holds nothing in the next statement', async () => {
    const root = server.path(`blocked-${transport}`);
    const { child, tokens } = await holder(transport, root);
    const other = await connect();
    const looking = child.ask<Record<string, Look>>('block', 3 * SESSION_TIMEOUT);
    const next = await takeAll(other, root);
    const seen = await looking;
    expect(Object.keys(seen)).toEqual(Object.keys(tokens));
    expect(seen).toEqual(all({ held: false, aborted: true }, seen));
    const later = await child.ask<Record<string, Look>>('later');
    expect(later).toEqual(all({ saved: true }, later));
    for (const [kind, token] of Object.entries(tokens)) expect(next[kind]).toBeGreaterThan(token);
  });

  it('a pause shorter than the session loses nothing', async () => {
    const root = server.path(`short-${transport}`);
    const { child } = await holder(transport, root, LONG_TIMEOUT);
    const seen = await child.ask<Record<string, Look>>('block', LONG_TIMEOUT / 4);
    expect(seen).toEqual(all({ saved: false, aborted: false, held: true }, seen));
  });
});
