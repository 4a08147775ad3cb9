import { describe, expect, it } from 'vitest';
import {
  BadOptionError,
  DistributedBarrier,
  WaitTimeoutError,
  RecipeConflictError,
  ShuttingDownError,
  WaitCancelledError,
} from 'nestjs-zookeeper/coordination/recipes';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { expire, untilState, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { useServer } from '../../support/servers.js';

const server = useServer({ own: true });
const connect = useClients(server);

async function barrier() {
  const client = await connect();
  const path = server.path('barrier');
  return { client, path, barrier: new DistributedBarrier(client, path) };
}

/** Resolves when clients have set that many watches. */
const watches = (count: number) =>
  eventually(async () => expect(await server.watchCount()).toBe(count));

describe('a barrier', () => {
  it('blocks all waiters until it is removed', async () => {
    const { client, path, barrier: first } = await barrier();
    const second = new DistributedBarrier(await connect(), path);
    await first.waitOnBarrier();
    await first.setBarrier();
    await second.setBarrier();
    let passed = 0;
    const waits = [first, second, second].map((each) => each.waitOnBarrier().then(() => passed++));
    await watches(2);
    expect(passed).toBe(0);
    await second.removeBarrier();
    await Promise.all(waits);
    await first.removeBarrier();
    expect(await client.exists(path)).toBeUndefined();
    expect(await server.watchCount()).toBe(0);
  });

  it('creates its missing parents', async () => {
    const { client, path } = await barrier();
    const deep = new DistributedBarrier(client, `${path}/a/b`);
    await deep.setBarrier();
    await expect(deep.waitOnBarrier({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
  });

  it('ends a wait with its timeout, its signal, or the signal of the object', async () => {
    const { client, path, barrier: one } = await barrier();
    await one.setBarrier();
    await expect(one.waitOnBarrier({ wait: 20 })).rejects.toThrow(
      `the wait for the removal of barrier ${path} was not over within 20 ms: call removeBarrier(), or pass a longer wait`,
    );
    const controller = new AbortController();
    const cancelled = one.waitOnBarrier({ signal: controller.signal });
    const stopping = new AbortController();
    const another = new DistributedBarrier(client, path, { signal: stopping.signal });
    const stopped = another.waitOnBarrier();
    controller.abort(new Error('enough'));
    await expect(cancelled).rejects.toThrow(WaitCancelledError);
    stopping.abort(new Error('the end'));
    await expect(stopped).rejects.toThrow('the end');
    await expect(another.waitOnBarrier()).rejects.toThrow('the end');
    await expect(one.waitOnBarrier({ signal: controller.signal })).rejects.toMatchObject({
      code: 'CANCELLED',
      cause: { message: 'enough' },
    });
    await one.removeBarrier();
    await eventually(async () => expect(await server.watchCount()).toBe(0));
  });

  it('continues to wait in the next session', async () => {
    const { client, barrier: one } = await barrier();
    const other = await connect();
    await one.setBarrier();
    const wait = one.waitOnBarrier();
    await watches(1);
    await expire(client, server);
    await watches(1);
    await new DistributedBarrier(other, one.path).removeBarrier();
    await wait;
  });

  it('ends a wait by its timeout and its signal while there is no connection', async () => {
    const client = await connect({ retry: { type: 'forever', delay: 50 } });
    const one = new DistributedBarrier(client, server.path('barrier'));
    await one.setBarrier();
    await server.stop();
    await untilState(client, 'SUSPENDED');
    try {
      await expect(one.waitOnBarrier({ wait: 30 })).rejects.toThrow(WaitTimeoutError);
      await expect(one.waitOnBarrier({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
      const signal = AbortSignal.timeout(30);
      await expect(one.waitOnBarrier({ signal })).rejects.toThrow(WaitCancelledError);
    } finally {
      await server.start();
    }
    const wait = one.waitOnBarrier();
    await one.removeBarrier();
    await wait;
    await eventually(async () => expect(await server.watchCount()).toBe(0));
  });

  it('rejects a wait when the client is closed', async () => {
    const { client, barrier: one } = await barrier();
    await one.setBarrier();
    const wait = one.waitOnBarrier();
    wait.catch(() => {});
    await watches(1);
    await client.close();
    await expect(wait).rejects.toThrow(ShuttingDownError);
  });

  it('refuses a path that another recipe uses', async () => {
    const { client, path, barrier: one } = await barrier();
    const lease = await new Mutex(client, path).acquire();
    await expect(one.setBarrier()).rejects.toThrow(RecipeConflictError);
    await expect(one.waitOnBarrier()).rejects.toThrow(RecipeConflictError);
    await expect(one.removeBarrier()).rejects.toThrow(RecipeConflictError);
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('refuses wrong arguments', async () => {
    const { client, path, barrier: one } = await barrier();
    expect(() => new DistributedBarrier(client, '/')).toThrow(BadOptionError);
    expect(() => new DistributedBarrier(client, path, { wait: 1 } as object)).toThrow('wait');
    expect(() => new DistributedBarrier(client, path, { signal: 1 as never })).toThrow('signal');
    await expect(one.waitOnBarrier({ wait: -1 })).rejects.toThrow('wait must be');
    await expect(one.waitOnBarrier({ signal: {} as never })).rejects.toThrow(BadOptionError);
    await expect(one.waitOnBarrier({ waits: 1 } as object)).rejects.toThrow('did you mean wait?');
  });
});
