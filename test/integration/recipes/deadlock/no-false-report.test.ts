import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import {
  type AcquireOptions,
  type Lock,
  MultiLock,
  Mutex,
  ReadWriteLock,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { expire, useClients } from '../../../support/clients.js';
import { collectDeadlocks, edges, runNested } from '../../../support/deadlocks.js';
import { useServer } from '../../../support/servers.js';
import { it } from '../../../support/virtual-time.js';

// Many chains acquire several locks in the same order. They wait for long, time out and lose their
// sessions, but never deadlock. The test ends after a number of checked waits, not after a time.

const server = useServer();
const connect = useClients(server);
const CLIENTS = 3;
const NIGHTLY = process.env.NIGHTLY !== undefined;
/** Groups that run side by side, each with its own locks. */
const GROUPS = NIGHTLY ? 6 : 2;
/** Chains of each client in each group. */
const CHAINS = 6;
/** The outer locks of a group, used by two or more chains each, and the inner locks. */
const OUTER = 9;
const INNER = 4;
/** The number of sessions that end, and the number of checked waits before each end. */
const EXPIRIES = NIGHTLY ? 20 : 3;
const CHECKED_WAITS = 6;
/** Milliseconds. */
const LONGEST_HOLD = 900;
/** Milliseconds. A wait of this length has been checked. */
const CHECKED_AFTER = 800;

it('call chains that lock in one order cause no report except for the one deadlock that the test creates', async () => {
  const root = server.path('ordered');
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => connect()));
  const reports = collectDeadlocks();
  const stop = new AbortController();
  const { signal } = stop;
  setMaxListeners(0, signal);
  let checked = 0;
  const untilChecked = async (count: number) => {
    await expect.poll(() => checked).toBeGreaterThanOrEqual(count);
  };
  const { random } = Math;

  const lockOf = (client: ZkClient, key: string): Lock => {
    const path = `${root}/${key}`;
    // One recipe per key, because two recipes on one path are an error.
    if (Number(key.slice(-1)) % 2 === 0) return new Mutex(client, path);
    const { read, write } = new ReadWriteLock(client, path);
    return random() < 0.6 ? read : write;
  };
  const options = (): AcquireOptions => ({
    wait: random() < 0.3 ? 2000 * random() : 20_000,
    fairness: random() < 0.3 ? 'strict' : 'handover',
    linger: random() < 0.3 ? 1000 * random() : 0,
    signal,
  });
  const hold = () =>
    pause(random() < 0.6 ? LONGEST_HOLD * random() : 5 * random(), undefined, { signal });
  const nest = async (client: ZkClient, keys: string[], depth = 0): Promise<void> => {
    const [key, ...inner] = keys;
    if (key === undefined) return hold();
    if (inner.length === 1 && random() < 0.3) {
      const locks = keys.map((each) => lockOf(client, each));
      return new MultiLock(locks).withLock(hold, options());
    }
    const since = performance.now();
    return lockOf(client, key).withLock(() => {
      if (depth > 0 && performance.now() - since > CHECKED_AFTER) checked++;
      return nest(client, inner, depth + 1);
    }, options());
  };
  const chain = async (client: ZkClient, group: number) => {
    while (!signal.aborted) {
      const inner = Array.from({ length: INNER }, (_, index) => `${group}/k${index}`);
      const keys = [
        `${group}/a${Math.floor(random() * OUTER)}`,
        ...inner.filter(() => random() < 0.5).slice(0, 2),
      ];
      await nest(client, keys).catch(() => {});
    }
  };
  const trouble = async () => {
    for (let expiries = 1; expiries <= EXPIRIES; expiries++) {
      await untilChecked(expiries * CHECKED_WAITS);
      const client = clients[Math.floor(random() * CLIENTS)]!;
      const { sessionId } = client;
      await expire(client, server);
      await expect.poll(() => client.sessionId).not.toBe(sessionId);
    }
    // Otherwise the last check would prove nothing.
    await untilChecked((EXPIRIES + 1) * CHECKED_WAITS);
  };
  const ordered = clients.flatMap((client) =>
    Array.from({ length: GROUPS * CHAINS }, (_, index) => chain(client, index % GROUPS)),
  );
  const planting = (async () => {
    await untilChecked(CHECKED_WAITS);
    const [one, two] = await Promise.all([connect(), connect()]);
    const at = (client: ZkClient, key: string) => new Mutex(client, `${root}/${key}`, { key });
    await Promise.allSettled(
      runNested(
        { locks: [at(one, 'x'), at(one, 'y')], options: { wait: 3000 } },
        { locks: [at(two, 'y'), at(two, 'x')] },
      ),
    );
  })();
  await Promise.all([planting, trouble()]);
  stop.abort();
  await Promise.all(ordered);

  expect(reports.length).toBeGreaterThan(0);
  for (const deadlock of reports) expect(edges(deadlock)).toEqual(['x -> y', 'y -> x']);
});
