import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  type AcquireOptions,
  type Deadlock,
  Mutex,
  onDeadlock,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { edges } from '../../../support/deadlocks.js';
import { Gate } from '../../../support/gate.js';
import { currentWorld, it } from '../../../support/virtual-time.js';

/** Milliseconds from the last wait to the report in each process. */
const REPORTED_WITHIN = 2000;

/** Starts a process that holds a lock, and collects its reports. */
async function holder(key: string) {
  const name = `holder of ${key}`;
  const process = currentWorld().process(name);
  const client: ZkClient = await process.client({ sessionTimeout: 4000 });
  const reports: (Deadlock & { at: number })[] = [];
  const [held, crossing] = [new Gate(), new Gate()];
  const lock = (of: string) => new Mutex(client, `/locks/${of}`, { key: of });
  const details = { name, text: `of ${name}\n\u001b[2J` };
  let cross!: () => Promise<string>;
  const outcome = process.run(async () => {
    onDeadlock((deadlock) => reports.push({ ...deadlock, at: currentWorld().now }));
    const both = async () => {
      held.open();
      await crossing.opened;
      return cross();
    };
    return lock(key)
      .withLock(both, { details })
      .catch(({ code }: { code: string }) => code);
  });
  await held.opened;
  const start = (crosses: () => Promise<string>) => {
    cross = crosses;
    return process.run(() => {
      crossing.open();
      return outcome;
    });
  };
  return {
    key,
    reports,
    release: () => void start(() => Promise.resolve('released')),
    /** Waits for another lock in a call chain that holds none. */
    queue: (other: string) => process.run(() => lock(other).withLock(() => {})),
    /** Acquires another lock inside the first. Resolves with `done`, or the code of the error. */
    cross: (inner: string, options: AcquireOptions = {}) =>
      start(() => lock(inner).withLock(() => 'done', { details, ...options })),
    /** Waits for another lock inside the first for some milliseconds, and then keeps the first. */
    crossBriefly: (inner: string, wait: number) =>
      void start(() =>
        lock(inner)
          .withLock(() => 'done', { wait })
          .catch(() => delay(60_000, 'kept')),
      ),
  };
}

describe('a deadlock between processes', () => {
  it.each([2, 3])(
    'is reported to all %i within two seconds, with keys and holders',
    async (count) => {
      const keys = ['a', 'b', 'c'].slice(0, count);
      const holders = await Promise.all(keys.map(holder));
      for (const [index, { cross }] of holders.entries()) {
        void cross(keys[(index + 1) % count]!);
      }
      const start = currentWorld().now;
      await delay(REPORTED_WITHIN);
      for (const { key, reports } of holders) {
        expect(reports).toHaveLength(1);
        const [{ at, cycle, message }] = reports as [(typeof reports)[0]];
        expect(at - start).toBeGreaterThan(400);
        expect(edges({ cycle })).toEqual(
          keys.map((from, i) => `${from} -> ${keys[(i + 1) % count]}`),
        );
        for (const member of cycle) {
          const name = `holder of ${member.key}`;
          expect(member.holder).toMatchObject({ state: 'holding', details: { name } });
          expect(member.here).toBe(member.key === key);
          expect(message).toContain(`${name}: of ${name} ?[2J`);
        }
      }
    },
  );

  it('is reported to the process that waited first, too', async () => {
    const [one, two] = await Promise.all(['a', 'b'].map(holder));
    void one!.cross('b');
    // Long enough for its wait to be checked rarely.
    await delay(6000);
    expect(one!.reports).toEqual([]);
    void two!.cross('a');
    await delay(REPORTED_WITHIN);
    expect([one!.reports.length, two!.reports.length]).toEqual([1, 1]);
  });

  it('is no reason to refuse a lock that becomes free while the claims are written', async () => {
    const outcomes = new Set<string>();
    for (let wait = 590; wait < 610; wait += 0.25) {
      const [one, two] = await Promise.all([`a${wait}`, `b${wait}`].map(holder));
      const crossed = one!.cross(two!.key);
      await delay(wait);
      two!.release();
      outcomes.add(await crossed);
    }
    expect([...outcomes]).toEqual(['done']);
  });

  it('is not reported because of a wait that has timed out, although another caller waits on with its znode', async () => {
    const [one, two] = await Promise.all(['a', 'b'].map(holder));
    // Several rounds write the claim of the first wait into the znode that both share.
    one!.crossBriefly('b', 1500);
    void one!.queue('b');
    await delay(3000);
    void two!.cross('a');
    await delay(REPORTED_WITHIN);
    expect([one!.reports, two!.reports]).toEqual([[], []]);
  });
});
