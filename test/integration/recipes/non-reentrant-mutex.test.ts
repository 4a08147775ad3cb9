import { describe, expect } from 'vitest';
import {
  currentLease,
  LockBusyError,
  LockTimeoutError,
  NonReentrantMutex,
  runDetached,
  SelfDeadlockError,
  Semaphore,
} from 'nestjs-zookeeper/recipes';
import { useClients } from '../../support/clients.js';
import { failureOf, nodesUnder, untilNothingLeft } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);

const queues = (path: string) => [`${path}/locks`, `${path}/leases`];

describe('NonReentrantMutex', () => {
  it('uses the znode layout of a semaphore with one permit, as Curator does', async () => {
    const path = server.path('layout');
    const [client, other] = await Promise.all([connect(), connect()]);
    const lease = await new NonReentrantMutex(client, path, { key: 'gold' }).acquire();
    expect(lease).toMatchObject({ key: 'gold', path, held: true });
    expect(await nodesUnder(client, `${path}/leases`)).toEqual([
      expect.stringMatching(/^_c_[0-9a-f-]{36}-lease-0000000000$/),
    ]);
    await expect(new Semaphore(other, path, { permits: 1 }).acquire({ wait: 0 })).rejects.toThrow(
      LockBusyError,
    );
    await lease.release();
    const next = await new NonReentrantMutex(other, path).acquire();
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    await next.release();
  });

  it('is called a lock in its errors, although its nodes are those of a semaphore', async () => {
    const path = server.path('timeout');
    const [holder, other] = await Promise.all([connect(), connect()]);
    const lease = await new NonReentrantMutex(holder, path).acquire();
    const mutex = new NonReentrantMutex(other, path);
    const error = await failureOf(mutex.acquire({ wait: 40 }));
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect((error as Error).message).toBe(
      `lock "${path}" was not granted within 40 ms; participants() lists the holders`,
    );
    expect(await mutex.tryAcquire()).toBeUndefined();
    await lease.release();
    await untilNothingLeft(server, holder, ...queues(path));
  });

  it('rejects every further acquire of the call chain that holds it', async () => {
    const path = server.path('again');
    const client = await connect();
    const mutex = new NonReentrantMutex(client, path, { key: 'gold' });
    await mutex.withLock(async () => {
      expect(currentLease('gold')?.held).toBe(true);
      const again = new NonReentrantMutex(client, path, { key: 'gold' });
      for (const attempt of [again.withLock(() => 'never'), again.acquire(), again.tryAcquire()]) {
        const error = await failureOf(attempt);
        expect(error).toBeInstanceOf(SelfDeadlockError);
        expect(error).toMatchObject({ key: 'gold' });
      }
      expect(await nodesUnder(client, `${path}/leases`)).toHaveLength(1);
    });
    await untilNothingLeft(server, client, ...queues(path));
  });

  it('may be waited for in a detached part of the call chain, which does not count as the holder', async () => {
    const mutex = new NonReentrantMutex(await connect(), server.path('detached'));
    let waiting!: Promise<string>;
    await mutex.withLock(() => {
      waiting = runDetached(() => mutex.withLock(() => 'in'));
    });
    expect(await waiting).toBe('in');
  });
});
