import { describe, expect } from 'vitest';
import {
  LockBusyError,
  LockTimeoutError,
  Mutex,
  WaitCancelledError,
} from 'nestjs-zookeeper/recipes';
import { useClients, useLinks } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import { failureOf, nodesUnder, untilNothingLeft, untilNodes } from '../../support/recipe-nodes.js';
import { serverHas, useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

describe('Mutex', () => {
  it('grants callers with strict fairness in the order of arrival across processes', async () => {
    const path = server.path('turns');
    const [busy, other] = await Promise.all([connect(), connect()]);
    const held = await new Mutex(busy, path).acquire();
    const order: string[] = [];
    const ofBusy = Array.from({ length: 5 }, () =>
      new Mutex(busy, path).withLock(() => void order.push('busy'), { fairness: 'strict' }),
    );
    await untilNodes(busy, path, 6);
    const ofOther = new Mutex(other, path).withLock(() => void order.push('other'));
    await untilNodes(busy, path, 7);
    const later = new Mutex(busy, path).withLock(() => void order.push('later'), {
      fairness: 'strict',
    });
    await untilNodes(busy, path, 8);
    await held.release();
    await Promise.all([...ofBusy, ofOther, later]);
    expect(order).toEqual([...Array(5).fill('busy'), 'other', 'later']);
  });

  it('continues the tokens of a strict holder for the next strict caller of its process, without a listing', async () => {
    const path = server.path('succession');
    const [busy, other] = await Promise.all([connect(), connect()]);
    const mutex = new Mutex(busy, path);
    const first = await mutex.acquire({ fairness: 'strict' });
    const second = mutex.acquire({ fairness: 'strict' });
    const third = mutex.acquire({ fairness: 'strict' });
    await untilNodes(busy, path, 3);
    const ofOther = new Mutex(other, path).acquire();
    await untilNodes(busy, path, 4);
    const tokens = [first.fencingToken];
    let holder = first;
    for (const next of [second, third]) {
      await holder.release();
      holder = await next;
      tokens.push(holder.fencingToken);
    }
    expect(tokens.map((token) => token - tokens[0]!)).toEqual([0n, 1n, 2n]);
    await holder.release();
    const last = await ofOther;
    expect(last.fencingToken).toBeGreaterThan(holder.fencingToken);
    await last.release();
  });

  it.runIf(serverHas.containers)(
    'names its nodes as Curator does, with details of the holder, under a container',
    async () => {
      const path = server.path('layout');
      const client = await connect();
      const lease = await new Mutex(client, path).acquire();
      const [node] = await nodesUnder(client, path);
      expect(node).toMatch(/^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-0000000000$/);
      const { data, stat } = await client.get(`${path}/${node}`);
      expect(JSON.parse(data.toString())).toMatchObject({ pid: process.pid });
      expect(stat.ephemeralOwner).toBe((await client.session()).id);
      await lease.release();
      // Only a container is reaped.
      await expect.poll(() => client.exists(path)).toBeUndefined();
    },
  );

  it('works beside nodes with unknown names', async () => {
    const path = server.path('unknown');
    const client = await connect();
    await client.ensureContainers(path);
    await client.create(`${path}/notes`, '');
    const nodes = await new Mutex(client, path).withLock(() => nodesUnder(client, path));
    expect(nodes).toEqual([expect.stringContaining('-lock-'), 'notes']);
    expect(await nodesUnder(client, path)).toEqual(['notes']);
  });

  it('times out after the given milliseconds and leaves neither node nor watch', async () => {
    const path = server.path('timeout');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new Mutex(holder, path).acquire();
    const start = performance.now();
    const error = await failureOf(new Mutex(other, path, { key: 'gold' }).acquire({ wait: 100 }));
    const waited = Math.ceil(performance.now() - start);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({ code: 'TIMEOUT', key: 'gold' });
    // A timer counts whole milliseconds.
    if (isSimulated) expect(waited).toBe(100);
    else expect(waited).toBeGreaterThanOrEqual(100);
    await untilNodes(holder, path, 1);
    await lease.release();
    await untilNothingLeft(server, holder, path);
  });

  it('that lingers is granted to a try within 500 ms, without the write that some servers need for its token', async () => {
    const path = server.path('try');
    const connectAt = async (latency: number) => {
      const { connectString } = await newLink({ latency });
      return connect({ connectString });
    };
    const [holder, other] = await Promise.all([connectAt(150), connectAt(110)]);
    await new Mutex(holder, path).withLock(() => {}, { linger: 3_600_000 });
    const lease = await new Mutex(other, path).tryAcquire();
    expect(lease?.held).toBe(true);
    await lease!.release();
  });

  it('rejects when the signal aborts, with its reason as the cause', async () => {
    const path = server.path('cancel');
    const [holder, other] = await Promise.all([connect(), connect()]);
    await using _lease = await new Mutex(holder, path).acquire();
    const controller = new AbortController();
    const waiting = new Mutex(other, path).acquire({ signal: controller.signal });
    await untilNodes(holder, path, 2);
    const reason = new Error('the customer left');
    controller.abort(reason);
    await expect(waiting).rejects.toThrow(WaitCancelledError);
    await expect(waiting).rejects.toMatchObject({ cause: reason });
    await untilNodes(holder, path, 1);
    const late = new Mutex(other, `${path}-2`).acquire({ signal: controller.signal });
    await expect(late).rejects.toThrow(WaitCancelledError);
    expect(await other.exists(`${path}-2`)).toBeUndefined();
  });

  it('has a lease that is not held once release() was called, and whose second release does nothing', async () => {
    const path = server.path('release');
    const client = await connect();
    const lease = await new Mutex(client, path).acquire();
    expect(lease).toMatchObject({ key: path, path, held: true });
    const released = lease.release();
    expect(lease.held).toBe(false);
    await Promise.all([released, lease.release()]);
    expect(await nodesUnder(client, path)).toEqual([]);
    expect(lease.signal.aborted).toBe(false);
    const second = await new Mutex(client, path).acquire();
    await lease.release();
    expect(second.held).toBe(true);
    await expect(new Mutex(client, path).acquire({ wait: 0 })).rejects.toThrow(LockBusyError);
    await second.release();
  });
});
