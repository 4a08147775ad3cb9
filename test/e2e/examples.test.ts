import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { eventually } from '../support/eventually.js';

describe('the examples', () => {
  it.concurrent(
    'cron: no tick is run twice, although there are three replicas and the leader is killed',
    async () => {
      const { child, ended, output } = startCommand('dist-examples/cron/start.js', []);
      const reports = () =>
        [...output.stdout.matchAll(/ process (\d+): report of (\S+)\n/g)].map(([, pid, tick]) => ({
          pid: Number(pid),
          tick,
        }));
      await eventually(() => expect(reports().length).toBeGreaterThan(1));
      const [{ pid: leader }] = reports() as [{ pid: number }];
      process.kill(leader, 'SIGKILL');
      await eventually(() => expect(reports().filter(({ pid }) => pid !== leader)).toHaveLength(2));
      child.kill();
      expect(await ended).toMatchObject({ code: 0 });

      const ticks = reports().map(({ tick }) => tick);
      expect(ticks).toEqual([...new Set(ticks)].sort());
      // Each of the two leaders ran all reports of its time.
      expect(new Set(reports().map(({ pid }) => pid)).size).toBe(2);
    },
  );

  it.concurrent('typeorm-fence: the database refuses the process that was paused', async () => {
    const { ended } = startCommand('dist-examples/typeorm-fence/start.js', []);
    const { code, stdout } = await ended;
    expect(stdout).toMatch(
      /^process (\d+) has the lock .*\nprocess (?!\1)\d+ has sold a phone, 9 are left\n[^]*process \1 .* refused: StaleLeaseError: /m,
    );
    expect(code).toBe(0);
  });
});
