import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import type { PartitionsResult } from '../../sample-app/partitions/run.js';

const start = (...args: string[]) => startCommand('dist-sample/partitions.js', args);

describe('npm run partitions', () => {
  it('kills a process and starts it again, without two owners of a partition', async () => {
    const args = ['--processes', '3', '--partitions', '7', '--rounds', '1', '--json'];
    const { code, stdout, stderr } = await start(...args).ended;
    expect(stderr).toBe('No partition had two owners at a time.\n');
    expect(code).toBe(0);
    const { rows, violations, balanced } = JSON.parse(stdout) as PartitionsResult;
    expect({ violations, balanced }).toEqual({ violations: [], balanced: true });
    const steps = rows.filter(({ event }) => event !== '');
    expect(steps.map(({ event }) => event)).toEqual([
      'start 3',
      'balanced',
      'kill -9 p2',
      'balanced',
      'start p2',
      'balanced',
    ]);
    const owned = steps.map((row) => row.owned.filter((count) => count !== null).sort());
    expect(owned[1]).toEqual([2, 2, 3]);
    expect(owned[3]).toEqual([3, 4]);
    expect(owned[5]).toEqual([2, 2, 3]);
    // Only the partitions of the killed process moved, and only what it gets after its new start.
    expect(steps[3]!.moved).toBe(steps[2]!.withoutOwner);
    expect(steps[5]!.moved).toBe(2);
  });

  it('ends if a process cannot start', async () => {
    const program = 'if (process.env.PARTITIONS_WORKER) process.exit(1)';
    const env = {
      ...process.env,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(program)}`,
    };
    const { code, stderr } = await startCommand('dist-sample/partitions.js', [], env).ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^partitions: process p\d ended with 1$/m);
  });

  it('prints its usage', async () => {
    const help = await start('--help').ended;
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const option of ['--processes', '--partitions', '--rounds', '--zookeeper', '--json']) {
      expect(help.stdout).toContain(option);
    }
  });
});
