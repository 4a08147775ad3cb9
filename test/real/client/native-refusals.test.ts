import { expect, test, vi } from 'vitest';
import { Mutex } from 'nestjs-zookeeper/recipes';
import { DistributedAtomicLong } from 'nestjs-zookeeper/coordination';
import { NodeError } from '../../../lib/client/index.js';
import { useClients } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

// What ZooKeeper's C client cannot do. It can do all that locks, semaphores and elections need.

const zk = useServer();
const connect = useClients(zk);

const REMEDY = "the transport 'native' cannot send this request, use transport: 'wire'";

async function expectRefusal(request: Promise<unknown>, operation: string): Promise<void> {
  const error = await request.catch((e: unknown) => e);
  expect(error).toBeInstanceOf(NodeError);
  expect(error).toMatchObject({
    code: 'UNIMPLEMENTED',
    message: `${operation}: unimplemented (-6); ${REMEDY}`,
  });
}

test('the native transport refuses transactions and persistent watches, and names the other transport', async () => {
  const client = await connect({ transport: 'native' });
  const path = zk.path('refused');
  await expectRefusal(client.transaction([{ create: path }]), `transaction on ${path}`);
  await expectRefusal(
    client.addWatch(path, () => {}),
    `add a persistent watch on ${path}`,
  );
  await expectRefusal(
    client.addWatch(path, () => {}, { recursive: true }),
    `add a persistent watch on ${path}`,
  );
  const lease = await new Mutex(client, `${path}-lock`).acquire();
  const guarded = await lease.transaction([{ create: path }]).catch((e: unknown) => e);
  expect(guarded).toBeInstanceOf(NodeError);
  expect(guarded).toMatchObject({
    code: 'UNIMPLEMENTED',
    message: expect.stringContaining(REMEDY),
  });
  expect(lease.held).toBe(true);
  await lease.release();
  expect(await client.exists(path)).toBeUndefined();
  const counter = new DistributedAtomicLong(client, `${path}-counter`);
  expect(await counter.increment()).toMatchObject({ postValue: 1n });
  expect(client.connected).toBe(true);
});

test('a refusal is not taken for a reply of the server', async () => {
  const client = await connect({ transport: 'native' });
  const session = await client.session();
  const { deadline } = session as unknown as { deadline: { extend(since: unknown): void } };
  const extend = vi.spyOn(deadline, 'extend');
  await session.transaction([{ check: '/' }]).catch(() => {});
  expect(extend).not.toHaveBeenCalled();
  await session.sync('/');
  expect(extend).toHaveBeenCalled();
});
