import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { childrenOf, running } from '../support/processes.js';

interface Row {
  opsPerSecond: number;
  p50: number;
  p99: number;
  spread: number[];
  longestWait: number;
  prober?: { p50: number; longestWait: number };
}

interface Report {
  cases: Record<string, Record<string, Row>>;
  ratios: Record<'native' | 'wire', Record<string, Record<string, number>>>;
  setting: { servers: number; fsync: { p50: number }; leftOut: Record<string, string> };
  failures: string[];
}

const OURS = { native: 'ours (native)', wire: 'ours (wire)' };
const PEERS = ['curator', 'redlock', 'kazoo', 'raw', 'raw (wire)'];
const BRIEFLY = ['--seconds', '1', '--repetitions', '1'];

const start = (...args: string[]) => startCommand('dist-scripts/bench/main.mjs', args);

/** Returns a process and all of its descendants. */
function familyOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(familyOf)];
}

describe('npm run bench', { timeout: 400_000 }, () => {
  it('measures all available systems, and prints one JSON object', async () => {
    const cases = ['uncontended', 'hot-64'];
    const { code, stdout, stderr } = await start('--json', '--cases', cases.join(), ...BRIEFLY)
      .ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { ratios, setting, failures, ...report } = JSON.parse(stdout) as Report;
    expect(Object.keys(report.cases)).toEqual(cases);
    expect(failures).toEqual([]);
    expect(setting.servers).toBe(1);
    expect(setting.fsync.p50).toBeGreaterThan(0);
    for (const name of cases) {
      const rows = report.cases[name]!;
      for (const [system, row] of Object.entries(rows)) {
        expect(setting.leftOut).not.toHaveProperty([system]);
        expect(row.opsPerSecond, `${name}, ${system}`).toBeGreaterThan(0);
        expect(row.p99, `${name}, ${system}`).toBeGreaterThanOrEqual(row.p50);
        expect(row.spread, `${name}, ${system}`).toEqual([row.opsPerSecond, row.opsPerSecond]);
      }
      for (const transport of ['native', 'wire'] as const) {
        const ours = OURS[transport];
        const compared = PEERS.filter((peer) => peer in rows && ours in rows);
        expect(Object.keys(ratios[transport][name]!)).toEqual(compared);
        for (const peer of compared) {
          const ratio = rows[ours]!.opsPerSecond / rows[peer]!.opsPerSecond;
          expect(ratios[transport][name]![peer]! / ratio).toBeCloseTo(1, 2);
        }
      }
    }
    // The one case that runs wherever this test does, with a prober.
    const { prober, longestWait } = report.cases['hot-64']!['ours (embedded)']!;
    expect(longestWait).toBeGreaterThan(0);
    expect(prober!.longestWait).toBeGreaterThan(0);
    expect(report.cases.uncontended!['ours (embedded)']).not.toHaveProperty('prober');
  });

  it.each([
    ['--cases', 'hot-65'],
    ['--seconds', '0'],
    ['--repetitions', '1.5'],
    ['--write', '--cases=hot-64'],
    ['--write', '--servers=3'],
    ['--servers', '6'],
    ['--loud'],
    ['5'],
  ])('rejects %s %s', async (...args) => {
    const { code, stdout, stderr } = await start(...args).ended;
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(args[0]);
  });

  it.each(['SIGINT', 'SIGKILL'] as const)(
    'leaves no process or file behind after %s',
    async (signal) => {
      const { child, ended } = start('--json', '--cases', 'hot-64', '--seconds', '20');
      const load = (pid: number) =>
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('workers/ours.mjs');
      let started: number[] = [];
      const isLoaded = () => (started = familyOf(child.pid!)).some(load);
      await expect.poll(isLoaded).toBe(true);
      child.kill(signal);
      const { code, stderr } = await ended;
      if (signal === 'SIGINT') {
        expect({ code, stderr }).toEqual({ code: 1, stderr: 'FAILED: interrupted\n' });
      }
      await expect.poll(() => running(started)).toEqual([]);
    },
  );
});
