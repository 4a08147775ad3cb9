import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import type { Deadlock } from 'nestjs-zookeeper/recipes';
import { edges } from '../../../support/deadlocks.js';
import { Child } from '../../../support/harness.js';
import { useServer } from '../../../support/servers.js';

const server = useServer();
const PROGRAM = fileURLToPath(new URL('../../../support/deadlock-child.mjs', import.meta.url));
/** Milliseconds from the last wait to the report in each process. */
const TOLD_WITHIN = 2000;
/** The limit is the library's, so the test is repeated if the machine stalled. */
const TIMED = { retry: 2 };

const children: Child[] = [];
afterEach(() => Promise.all(children.splice(0).map((child) => child.kill())));

interface Report extends Pick<Deadlock, 'cycle' | 'message'> {
  /** When the process began to wait, and when its report came, by the machine's clock. */
  readonly since: number;
  readonly at: number;
}

/** Starts a process that holds a lock and collects its reports. */
async function holder(root: string, key: string) {
  const { connectString } = server;
  const transport = process.env.NESTJS_ZOOKEEPER_TRANSPORT;
  const name = `holder of ${key}`;
  const child = new Child(name, PROGRAM, [
    JSON.stringify({ connectString, transport, root, name }),
  ]);
  children.push(child);
  const reports: Report[] = [];
  child.onMessage = (news) => reports.push(news as unknown as Report);
  await child.ask('hold', key);
  const cross = (inner: string, options = {}) =>
    child.ask<string>('cross', { key: inner, options });
  return { child, key, reports, cross };
}

describe('a deadlock between processes', () => {
  it.each([2, 3])(
    'is reported to all %i within two seconds, with keys and holders',
    TIMED,
    async (count) => {
      const root = server.path('processes');
      const keys = ['a', 'b', 'c'].slice(0, count);
      const holders = await Promise.all(keys.map((key) => holder(root, key)));
      for (const [index, { cross }] of holders.entries()) {
        cross(keys[(index + 1) % count]!).catch(() => {});
      }
      for (const { reports } of holders) await expect.poll(() => reports.length).toBe(1);
      const expected = keys.map((key, index) => `${key} -> ${keys[(index + 1) % count]}`);
      const closed = Math.max(...holders.map(({ reports }) => reports[0]!.since));
      for (const { child, key, reports } of holders) {
        const [{ at, cycle, message }] = reports as [Report];
        expect(at - closed).toBeLessThan(TOLD_WITHIN);
        expect(edges({ cycle })).toEqual(expected);
        expect(cycle.find(({ here }) => here)?.key).toBe(key);
        for (const member of cycle) {
          const name = `holder of ${member.key}`;
          expect(member.holder).toMatchObject({ state: 'holding', details: { name } });
          expect(member.here).toBe(member.holder.pid === child.pid);
          expect(message).toContain(name);
        }
      }
    },
  );

  it('rejects exactly one of them, and the others continue', async () => {
    const root = server.path('refused');
    const keys = ['a', 'b', 'c'];
    const holders = await Promise.all(keys.map((key) => holder(root, key)));
    const ends = holders.map(({ cross }, index) =>
      cross(keys[(index + 1) % keys.length]!, { onDeadlock: 'refuse' }),
    );
    expect((await Promise.all(ends)).sort()).toEqual(['DEADLOCK', 'done', 'done']);
  });

  it('is reported to the process that waited first, too', TIMED, async () => {
    const root = server.path('later');
    const [one, two] = await Promise.all([holder(root, 'a'), holder(root, 'b')]);
    one.cross('b').catch(() => {});
    // Long enough for its wait to be checked rarely.
    await new Promise((resolve) => setTimeout(resolve, 6000));
    expect(one.reports).toEqual([]);
    const since = performance.now();
    two.cross('a').catch(() => {});
    await expect.poll(() => one.reports.length + two.reports.length, { interval: 10 }).toBe(2);
    expect(performance.now() - since).toBeLessThan(TOLD_WITHIN);
  });
});
