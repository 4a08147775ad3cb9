import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Lease, Mutex } from 'nestjs-zookeeper/recipes';
import { useClients, useLinks } from '../../support/clients.js';
import { nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);
const STRICT = { fairness: 'strict' } as const;
const LATENCY = 50;

async function connectSlowly() {
  const { connectString } = await newLink({ latency: LATENCY });
  return connect({ connectString });
}

const sequenceOf = (node: string) => Number(node.slice(-10));

it.each([
  ['while the notification is on its way', 6 * LATENCY, 2 * LATENCY - 5],
  ['before the waiter watches its znode', 4 * LATENCY, 0],
])(
  'two callers do not follow one holder because another client has deleted the znode between them, %s',
  async (_, before, after) => {
    const path = server.path('deleted');
    const [busy, admin] = await Promise.all([connectSlowly(), connect()]);
    const mutex = new Mutex(busy, path);
    const first = await mutex.acquire(STRICT);
    const leases: Lease[] = [];
    let most = 0;
    const take = async () => {
      const lease = await mutex.acquire(STRICT);
      leases.push(lease);
      most = Math.max(most, leases.filter(({ held }) => held).length);
      await delay(20);
      await lease.release();
    };
    const second = take();
    await untilNodes(admin, path, 2);
    await delay(before);
    const [, waiting] = (await nodesUnder(admin, path)).toSorted(
      (a, b) => sequenceOf(a) - sequenceOf(b),
    );
    const third = take();
    await delay(LATENCY / 2);
    await admin.delete(`${path}/${waiting}`);
    await delay(after);
    await first.release();
    await Promise.all([second, third]);
    expect(most).toBe(1);
    const tokens = [first, ...leases].map(({ fencingToken }) => fencingToken);
    expect(new Set(tokens).size).toBe(3);
  },
);

it('a caller that gives up at the moment of its turn leaves it to the next one', async () => {
  for (let microtasks = 0; microtasks < 40; microtasks++) {
    const path = server.path(`leaves-${microtasks}`);
    const mutex = new Mutex(await connect(), path);
    const first = await mutex.acquire(STRICT);
    const { signal, abort } = aborter();
    const second = mutex.acquire({ ...STRICT, signal }).then(
      (lease) => lease.release(),
      () => {},
    );
    const third = mutex.acquire({ ...STRICT, wait: 2_000 });
    await untilNodes(mutex.client, path, 3);
    await delay(20);
    const released = first.release();
    for (let count = 0; count < microtasks; count++) await undefined;
    abort();
    await (await third).release();
    await Promise.all([second, released]);
  }
});

it('a caller that comes while the listing of another one is on its way keeps its place', async () => {
  const path = server.path('place');
  const [busy, other] = await Promise.all([connectSlowly(), connect()]);
  const held = await new Mutex(other, path).acquire();
  const order: string[] = [];
  const take = (name: string, client = busy) =>
    new Mutex(client, path).withLock(() => void order.push(name), STRICT);
  const one = take('one');
  await delay(LATENCY / 2);
  const two = take('two');
  await delay(1.4 * LATENCY);
  await untilNodes(other, path, 3);
  const late = take('late', other);
  await delay(10 * LATENCY);
  await held.release();
  await Promise.all([one, two, late]);
  expect(order).toEqual(['one', 'two', 'late']);
});

function aborter() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
