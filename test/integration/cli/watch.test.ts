import { describe, expect, vi } from 'vitest';
import { LeaderLatch, Mutex, ReadWriteLock, Semaphore } from 'nestjs-zookeeper/recipes';
import type { ZkClient } from '../../../lib/client/index.js';
import { EventLog, type LockEvent } from '../../../lib/cli/events.js';
import { type ListChildren, scan } from '../../../lib/cli/scan.js';
import { watch } from '../../../lib/cli/watch.js';
import { expire, untilState, useClients } from '../../support/clients.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const everything = { kinds: ['lock', 'election'], inNamespace: false } as const;
const PRIVATE = [{ scheme: 'auth', id: '', permissions: 'cdrwa' }] as const;
const OPEN = [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }] as const;

const strict = { fairness: 'strict' } as const;

/** Starts a wait, and resolves when its znode exists. */
async function wait(client: ZkClient, path: string, nodes: number) {
  const signal = new AbortController();
  const acquired = new Mutex(client, path).acquire({ ...strict, signal: signal.signal });
  acquired.catch(() => {});
  await untilNodes(client, path, nodes);
  return { acquired, signal };
}

describe('a scan', () => {
  it('leaves out a znode that vanishes meanwhile', async () => {
    const client = await connect();
    await client.ensureContainers('/locks/gone');
    await new Mutex(client, '/locks/held').acquire();
    const read = await scan(client, everything, async (path) => {
      const { children } = await client.children(path);
      if (path === '/locks') await client.delete('/locks/gone');
      return children;
    });
    expect(read.states.map(({ key }) => key)).toEqual(['held']);
    expect(read).toMatchObject({ missing: [], unreadable: [], truncated: false });
  });

  it('lists at most 20,000 znodes, unless a namespace limits it', async () => {
    const client = await connect();
    const names = Array.from({ length: 20_000 }, (_, index) => `${index}`);
    const list = vi.fn<ListChildren>(async (path) => (/\d$/.test(path) ? [] : names));
    expect((await scan(client, everything, list)).truncated).toBe(true);
    expect(list).toHaveBeenCalledTimes(20_000);
    const options = { kinds: ['lock'], inNamespace: true } as const;
    expect((await scan(client, options, list)).truncated).toBe(false);
  });
});

describe('the events between two reads', () => {
  /** Returns a function that reads all znodes, and resolves to the events since the last call. */
  async function reader(): Promise<() => Promise<string[]>> {
    const client = await connect();
    const log = new EventLog(client);
    const read = async () => {
      const events = await log.update((await scan(client, everything)).states);
      return events.map(({ event, key, note }) => [event, key, ...(note ? [note] : [])].join(' '));
    };
    expect(await read()).toEqual([]);
    return read;
  }

  const note = 'or its session has ended';

  it('tell a waiter that gave up from one that may have held the lock', async () => {
    const path = '/locks/gold';
    const [client, read] = await Promise.all([connect(), reader()]);
    const lease = await new Mutex(client, path).acquire();
    expect(await read()).toEqual(['granted gold']);
    const first = await wait(client, path, 2);
    const second = await wait(client, path, 3);
    await wait(client, path, 4);
    expect(await read()).toEqual(['waiting gold', 'waiting gold', 'waiting gold']);
    expect(await read()).toEqual([]);
    second.signal.abort();
    await untilNodes(client, path, 3);
    expect(await read()).toEqual(['gave-up gold']);
    await lease.release();
    await (await first.acquired).release();
    expect(await read()).toEqual([
      'released gold',
      'released gold held between two reads, or gave up',
      'granted gold',
    ]);
  });

  it('measure a hold from its grant, and not from the beginning of the wait', async () => {
    const path = '/locks/gold';
    const client = await connect();
    const log = new EventLog(client);
    const read = async () => log.update((await scan(client, everything)).states);
    const lease = await new Mutex(client, path).acquire();
    await read();
    const next = await wait(client, path, 2);
    await read();
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    await lease.release();
    const granted = await next.acquired;
    await read();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    await granted.release();
    const [released] = await read();
    expect(Math.round(released!.held! / 1000)).toBe(2);
  });

  it('are a loss if the znodes of a session are deleted together', async () => {
    const [client, other, read] = await Promise.all([connect(), connect(), reader()]);
    // The server deletes containers that are empty, and with them the transaction of their last change.
    for (const path of ['', '/gold', '/silver']) await other.create(`/locks${path}`);
    await new Mutex(client, '/locks/gold').acquire();
    await new ReadWriteLock(client, '/locks/silver').read.acquire();
    const latch = new LeaderLatch(other, '/elections/nightly', { id: 'n0' });
    latch.start();
    await untilNodes(other, '/elections/nightly', 1);
    expect(await read()).toEqual(['elected nightly', 'granted gold', 'granted silver']);
    await expire(client, server);
    await untilNodes(other, '/locks/silver', 0);
    expect(await read()).toEqual(['lost gold', 'lost silver']);
    const lease = await new Mutex(other, '/locks/gold').acquire();
    await read();
    await latch.close();
    await lease.release();
    // Two deletes.
    expect(await read()).toEqual([`resigned nightly ${note}`, `released gold ${note}`]);
  });

  it('are the grant of a request for permits, although its znode is another one', async () => {
    const path = '/semaphores/s';
    const [client, other, read] = await Promise.all([connect(), connect(), reader()]);
    const lease = await new Semaphore(client, path, { permits: 2 }).acquire({ count: 2 });
    expect(await read()).toEqual(['granted s', 'granted s']);
    const waiting = new Semaphore(other, path, { permits: 2 }).acquire();
    await untilNodes(client, `${path}/leases`, 3);
    expect(await read()).toEqual(['waiting s']);
    await lease.release();
    const second = await waiting;
    expect(await read()).toEqual([`released s ${note}`, `released s ${note}`, 'granted s']);
    await second.release();
    expect(await read()).toEqual([`released s ${note}`]);
  });

  it('leave out a lock that cannot be read', async () => {
    const path = '/locks/gold';
    const auth = [{ scheme: 'digest' as const, user: 'ops', password: 'secret' }];
    const [client, read] = await Promise.all([connect({ auth }), reader()]);
    const lease = await new Mutex(client, path).acquire();
    expect(await read()).toEqual(['granted gold']);
    for (const acl of [PRIVATE, OPEN]) {
      await client.setAcl(path, [...acl]);
      expect(await read()).toEqual([]);
    }
    await lease.release();
    expect(await read()).toEqual([`released gold ${note}`]);
  });
});

describe('watch', () => {
  const { stdout, stderr } = process;
  const terminal = { isTTY: stdout.isTTY, columns: stdout.columns, rows: stdout.rows };
  const output = { out: '', err: '' };
  afterEach(() => {
    vi.restoreAllMocks();
    Object.assign(stdout, terminal);
  });

  /** Starts a watch, and resolves when it has read once. */
  async function start({ json = false, every = 100 } = {}) {
    output.out = output.err = '';
    vi.spyOn(stdout, 'write').mockImplementation((text) => ((output.out += String(text)), true));
    vi.spyOn(stderr, 'write').mockImplementation((text) => ((output.err += String(text)), true));
    const client = await connect({ retry: { type: 'fixed', delay: 500, maxRetries: 3 } });
    const stopping = new AbortController();
    const options = { ...everything, every, json };
    const ended = watch(client, options, stopping.signal, () => 'the locks');
    await expect.poll(() => output.err + output.out).toContain('the locks');
    return {
      client,
      until: async (text: string) => {
        await expect.poll(() => output.out + output.err).toContain(text);
      },
      stop: () => (stopping.abort(), ended),
    };
  }

  it('prints a line for each change', async () => {
    const client = await connect();
    const { until, stop } = await start();
    const mutex = new Mutex(client, '/shop/locks/gold');
    const lease = await mutex.acquire({ details: { name: 'shop-1' } });
    await until('granted');
    const waiting = mutex.acquire(strict);
    await until('waiting');
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    await lease.release();
    const second = await waiting;
    await until('waited');
    const latch = new LeaderLatch(client, '/shop/elections/nightly', { id: 'n0' });
    latch.start();
    await until('elected');
    await latch.close();
    await until('resigned');
    await stop();
    await second.release();
    // Nothing else is printed, although the znodes are created and deleted.
    expect(output.err).toBe('nestjs-zookeeper: the locks\n');
    const lines = output.out.trimEnd().split('\n');
    const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}/;
    for (const line of lines) expect(line).toMatch(time);
    const here = ` pid ${process.pid}`;
    expect(lines.map((line) => line.replace(time, '').replace(/\S* pid/, ' pid'))).toEqual([
      `granted   namespace /shop  gold (mutex)  shop-1 ${here})`,
      `waiting   namespace /shop  gold (mutex)  ${here}`,
      `released  namespace /shop  gold (mutex)  shop-1 ${here})  held 5s`,
      `granted   namespace /shop  gold (mutex)  ${here}  waited 5s`,
      'elected   namespace /shop  nightly (election)  n0',
      'resigned  namespace /shop  nightly (election)  n0  held 0s',
    ]);
  });

  it('prints events as JSON lines, and continues after a restart of the server', async () => {
    const client = await connect();
    await client.ensureContainers('/shop/locks/a%2Fb');
    const { until, stop, ...watching } = await start({ json: true });
    await server.stop();
    await until('connection lost');
    await untilState(watching.client, 'SUSPENDED');
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    await server.start();
    await until('connection back');
    const lease = await new Mutex(client, '/shop/locks/a%2Fb').acquire();
    await until('"granted"');
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    await lease.release();
    await until('"released"');
    const lines = output.out.trimEnd().split('\n');
    const participant = { pid: process.pid, session: client.sessionId };
    const lock = { namespace: '/shop', key: 'a/b', path: '/shop/locks/a%2Fb', recipe: 'mutex' };
    const [granted, released, ...more] = lines.map((line) => JSON.parse(line) as LockEvent);
    expect(granted).toMatchObject({ event: 'granted', ...lock, participant });
    expect(released).toMatchObject({ event: 'released', ...lock, participant });
    expect(Math.round(released!.held! / 1000)).toBe(10);
    expect(more).toEqual([]);
    await stop();
    await client.close();
    await expect.poll(() => server.watchCount()).toBe(0);
  });

  it('ends while the server is away', async () => {
    const { until, stop } = await start();
    await server.stop();
    await until('connection lost');
    await stop();
  });

  it('redraws a terminal within its size', async () => {
    Object.assign(stdout, { isTTY: true, columns: 60, rows: 12 });
    const client = await connect();
    const { until, stop } = await start();
    await until('no holder, waiter or leader');
    const details = { name: 'x'.repeat(100) };
    for (const key of ['a', 'b', 'c', 'd', 'e']) {
      await new Mutex(client, `/shop/locks/${key}`).acquire({ details });
    }
    const lastFrame = () => output.out.split('\x1b[H').at(-1)!;
    await expect.poll(lastFrame).toContain('… 5 more lines');
    // oxlint-disable-next-line no-control-regex
    const lines = lastFrame()
      .replaceAll(/\x1b\[\d*\w/g, '')
      .split('\n');
    // The last line of the terminal stays empty.
    expect(lines.slice(0, -1)).toHaveLength(11);
    expect(lines).toContain('namespace /shop');
    for (const each of lines) expect(each.length).toBeLessThanOrEqual(60);
    // Nothing is erased before it is drawn again.
    expect(output.out).not.toContain('\x1b[2J');
    stdout.columns = 40;
    stdout.emit('resize');
    expect(lastFrame()).toContain('AGE');
    expect(lastFrame()).not.toMatch(/[^\n]{70}/);
    await stop();
    expect(stdout.listenerCount('resize')).toBe(0);
  });
});
