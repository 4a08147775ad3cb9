import { expect, test } from 'vitest';
import type { Session } from '../../../lib/client/index.js';
import { Snapshot } from '../../../lib/kernel/deadlock/search.js';

/** A session that lists these children in each queue. */
const listing = (children: readonly string[]) =>
  ({ id: '1', children: async () => ({ children }) }) as unknown as Session;

const numbered = (marker: string, sequence: number) =>
  `_c_x-${marker}${String(sequence).padStart(10, '0')}`;

test('the blockers of a znode are those that its lock waits for', async () => {
  const [first, second] = [numbered('__READ__', 1), numbered('__READ__', 2)];
  const [writer, downgraded] = [numbered('__WRIT__', 3), numbered('__READ__', 3)];
  const [third, last] = [numbered('__READ__', 4), numbered('__WRIT__', 5)];
  const all = [last, third, downgraded, writer, second, first];
  const session = listing(all);
  const snapshot = new Snapshot();
  const ahead = async (name: string) =>
    (await snapshot.ahead(session, `/q/${name}`)).map((path) => path.slice('/q/'.length));
  const behind = async (name: string) =>
    (await snapshot.behind(session, `/q/${name}`)).map((path) => path.slice('/q/'.length));

  expect(await ahead(second)).toEqual([]);
  expect(await ahead(writer)).toEqual([first, second]);
  expect(await ahead(downgraded)).toEqual([]);
  expect(await ahead(third)).toEqual([first, second, writer]);
  expect(await ahead(last)).toEqual([first, second, writer, downgraded, third]);
  expect(await ahead('gone')).toEqual([]);
  expect(await behind('gone')).toEqual([]);
  for (const name of all) {
    const waiters = await Promise.all(
      all.map(async (other) => ((await ahead(other)).includes(name) ? [other] : [])),
    );
    expect((await behind(name)).toSorted()).toEqual(waiters.flat().toSorted());
  }
});

test('a long queue does not block the process', async () => {
  const names = Array.from({ length: 10_001 }, (_, index) => numbered('lock-', index));
  const session = listing(names.slice(1));
  const before = process.cpuUsage();
  const waiters = await new Snapshot().behind(session, `/q/${names[1]}`);
  const { user, system } = process.cpuUsage(before);
  expect(waiters.slice(0, 2)).toEqual(names.slice(2, 4).map((name) => `/q/${name}`));
  expect((user + system) / 1000).toBeLessThan(1000);
  // A longer one is not searched.
  expect(await new Snapshot().behind(listing(names), `/q/${names[1]}`)).toEqual([]);
});
