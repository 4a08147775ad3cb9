import { describe, expect } from 'vitest';
import {
  BadOptionError,
  Mutex,
  RecipeConflictError,
  ShuttingDownError,
  WaitCancelledError,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { DistributedBarrier, WaitTimeoutError } from 'nestjs-zookeeper/coordination';
import { expire, untilState, useClients } from '../../support/clients.js';
import { eventually } from '../../support/eventually.js';
import { useServer } from '../../support/servers.js';
import { beforeEach, it } from '../../support/virtual-time.js';

const server = useServer({ own: true });
const connect = useClients(server);
let client: ZkClient;
let path: string;
let barrier: DistributedBarrier;
beforeEach(async () => {
  client = await connect({ retry: { type: 'forever', delay: 50 } });
  path = server.path('barrier');
  barrier = new DistributedBarrier(client, path);
});

/** Resolves when clients have set that many watches. */
const watches = (count: number) =>
  eventually(async () => expect(await server.watchCount()).toBe(count));

describe('a barrier', () => {
  it('blocks all waiters until it is removed', async () => {
    const second = new DistributedBarrier(await connect(), path);
    await barrier.waitOnBarrier();
    await barrier.setBarrier();
    await second.setBarrier();
    let passed = 0;
    const waits = [barrier, second, second].map((each) =>
      each.waitOnBarrier().then(() => passed++),
    );
    await watches(2);
    expect(passed).toBe(0);
    await second.removeBarrier();
    await Promise.all(waits);
    await barrier.removeBarrier();
    expect(await client.exists(path)).toBeUndefined();
    expect(await server.watchCount()).toBe(0);
  });

  it('creates its missing parents', async () => {
    const deep = new DistributedBarrier(client, `${path}/a/b`);
    await deep.setBarrier();
    await expect(deep.waitOnBarrier({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
  });

  it('ends a wait with its timeout, its signal, or the signal of the object', async () => {
    await barrier.setBarrier();
    await expect(barrier.waitOnBarrier({ wait: 20 })).rejects.toThrow(
      `the wait for the removal of barrier ${path} was not over within 20 ms: call removeBarrier(), or pass a longer wait`,
    );
    const [cancel, stop] = [new AbortController(), new AbortController()];
    const { signal } = cancel;
    const cancelled = barrier.waitOnBarrier({ signal });
    const another = new DistributedBarrier(client, path, { signal: stop.signal });
    const stopped = another.waitOnBarrier();
    cancel.abort(new Error('enough'));
    await expect(cancelled).rejects.toThrow(WaitCancelledError);
    stop.abort(new Error('the end'));
    await expect(stopped).rejects.toThrow('the end');
    await expect(another.waitOnBarrier()).rejects.toThrow('the end');
    await expect(barrier.waitOnBarrier({ signal })).rejects.toMatchObject({
      code: 'CANCELLED',
      cause: { message: 'enough' },
    });
    await barrier.removeBarrier();
    await watches(0);
  });

  it('continues to wait in the next session', async () => {
    const other = await connect();
    await barrier.setBarrier();
    const wait = barrier.waitOnBarrier();
    await watches(1);
    await expire(client, server);
    await watches(1);
    await new DistributedBarrier(other, path).removeBarrier();
    await wait;
  });

  it('ends a wait by its timeout and its signal while there is no connection', async () => {
    await barrier.setBarrier();
    await server.stop();
    await untilState(client, 'SUSPENDED');
    try {
      await expect(barrier.waitOnBarrier({ wait: 30 })).rejects.toThrow(WaitTimeoutError);
      await expect(barrier.waitOnBarrier({ wait: 0 })).rejects.toThrow(WaitTimeoutError);
      const signal = AbortSignal.timeout(30);
      await expect(barrier.waitOnBarrier({ signal })).rejects.toThrow(WaitCancelledError);
    } finally {
      await server.start();
    }
    const wait = barrier.waitOnBarrier();
    await barrier.removeBarrier();
    await wait;
    await watches(0);
  });

  it('rejects a wait when the client is closed', async () => {
    await barrier.setBarrier();
    const wait = expect(barrier.waitOnBarrier()).rejects.toThrow(ShuttingDownError);
    await watches(1);
    await client.close();
    await wait;
  });

  it('refuses a path that another recipe uses, and wrong arguments', async () => {
    const lease = await new Mutex(client, path).acquire();
    await expect(barrier.setBarrier()).rejects.toThrow(RecipeConflictError);
    await expect(barrier.waitOnBarrier()).rejects.toThrow(RecipeConflictError);
    await expect(barrier.removeBarrier()).rejects.toThrow(RecipeConflictError);
    expect(lease.held).toBe(true);
    await lease.release();
    expect(() => new DistributedBarrier(client, '/')).toThrow(BadOptionError);
    expect(() => new DistributedBarrier(client, path, { wait: 1 } as object)).toThrow('wait');
    expect(() => new DistributedBarrier(client, path, { signal: 1 as never })).toThrow('signal');
    await expect(barrier.waitOnBarrier({ wait: -1 })).rejects.toThrow('wait must be');
    await expect(barrier.waitOnBarrier({ signal: {} as never })).rejects.toThrow(BadOptionError);
    await expect(barrier.waitOnBarrier({ waits: 1 } as object)).rejects.toThrow(
      'did you mean wait?',
    );
  });
});
