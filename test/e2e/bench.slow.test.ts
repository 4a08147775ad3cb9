import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { childrenOf, running } from '../support/processes.js';

interface Row {
  opsPerSecond: number;
  p50: number | null;
  p99: number | null;
  p999: number | null;
  spread: number[];
  prober?: { longestWait: number };
}

interface Report {
  cases: Record<string, Record<string, Row>>;
  ratios: Record<'native' | 'wire', Record<string, Record<string, number | null>>>;
  setting: { fsync: { p50: number }; leftOut: Record<string, string> };
  failures: string[];
}

const OURS = { wire: 'ours (wire)', native: 'ours (native)' };
const SYSTEMS = [
  ...Object.values(OURS),
  'ours (embedded)',
  'curator',
  'kazoo',
  'redlock',
  'raw',
  'raw (wire)',
];
const BENCH = 'dist-scripts/bench/main.mjs';

const start = (...args: string[]) => startCommand(BENCH, args);

/** Returns a process and all of its descendants. */
function familyOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(familyOf)];
}

/** Returns a directory with a program python3 that seems to have kazoo, and fails. */
async function brokenKazoo(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'bench-test-'));
  const script = '#!/bin/sh\ntest "$1" = -c && exit 0\necho "broken kazoo" >&2\nexit 3\n';
  await writeFile(join(directory, 'python3'), script, { mode: 0o755 });
  return directory;
}

describe('npm run bench', { timeout: 400_000 }, () => {
  it('has a row of each installed system in each case, and prints one JSON object', async () => {
    const { code, stdout, stderr } = await start('--quick', '--json').ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { cases, ratios, setting, failures } = JSON.parse(stdout) as Report;
    expect(failures).toEqual([]);
    expect(setting).toMatchObject({ servers: 1, quick: true });
    expect(setting.fsync.p50).toBeGreaterThan(0);
    const installed = SYSTEMS.filter((system) => !(system in setting.leftOut));
    expect(Object.keys(cases.uncontended!)).toEqual(installed);
    for (const [name, rows] of Object.entries(cases)) {
      for (const [system, row] of Object.entries(rows)) {
        expect(row.spread, `${name}, ${system}`).toEqual([row.opsPerSecond, row.opsPerSecond]);
        if (row.p50 === null) continue;
        expect(row.p99, `${name}, ${system}`).toBeGreaterThanOrEqual(row.p50);
        expect(row.p999, `${name}, ${system}`).toBeGreaterThanOrEqual(row.p99!);
      }
      for (const transport of ['native', 'wire'] as const) {
        const ours = rows[OURS[transport]];
        for (const [peer, ratio] of Object.entries(ratios[transport][name]!)) {
          // The ratio is rounded to 4 digits; it is null if the peer completed nothing in so short a time.
          const expected = ours!.opsPerSecond / rows[peer]!.opsPerSecond;
          if (ratio !== null) expect(ratio - expected).toBeLessThanOrEqual(0.001 * expected);
        }
      }
    }
    // The one case that runs wherever this test does, with a prober.
    expect(cases['hot-64']!['ours (embedded)']!.prober!.longestWait).toBeGreaterThan(0);
    expect(cases.uncontended!['ours (embedded)']).not.toHaveProperty('prober');
  });

  it('fails if an installed system has no result in a case', async () => {
    const directory = await brokenKazoo();
    try {
      const env = { ...process.env, PATH: `${directory}:${process.env.PATH}` };
      const args = ['--quick', '--json', '--cases', 'uncontended,read-64'];
      const { code, stdout, stderr } = await startCommand(BENCH, args, env).ended;
      const failures = ['uncontended', 'read-64'].map(
        (name) => `${name}, kazoo: no result: process 1: the process exited with 3: broken kazoo`,
      );
      expect(stderr).toBe(failures.map((failure) => `FAILED: ${failure}\n`).join(''));
      expect(code).toBe(1);
      const report = JSON.parse(stdout) as Report;
      expect(report.failures).toEqual(failures);
      expect(report.cases.uncontended).toHaveProperty('curator');
      expect(report.cases.uncontended).not.toHaveProperty('kazoo');
    } finally {
      await rm(directory, { recursive: true });
    }
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
