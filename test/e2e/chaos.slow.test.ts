import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';

interface Summary {
  seed: number;
  transport: string;
  faults: Record<string, number>;
  leases: Record<string, number>;
  checks: { name: string; made: number; violations: number }[];
}

const chaos = (...args: string[]) => startCommand('dist-scripts/chaos.mjs', args).ended;

describe('npm run chaos', { timeout: 400_000 }, () => {
  it('finds no violation on the embedded server with a fixed seed', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'chaos-test-'));
    const report = join(directory, 'report.html');
    const args = ['--seed', '1', '--minutes', '1', '--server', 'embedded', '--transport', 'wire'];
    const { code, stdout, stderr } = await chaos(...args, '--report', report, '--json');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const summary = JSON.parse(stdout) as Summary;
    expect(summary).toMatchObject({ seed: 1, transport: 'wire' });
    expect(Object.keys(summary.faults).length).toBeGreaterThan(0);
    for (const mode of ['exclusive', 'read', 'write', 'permit']) {
      expect(summary.leases[mode]).toBeGreaterThan(10);
    }
    for (const { violations } of summary.checks) expect(violations).toBe(0);
    expect(await readFile(report, 'utf8')).toContain('Chaos, seed 1');
    await rm(directory, { recursive: true });
  });

  it('finds no violation on an ensemble with a random seed', async () => {
    const { code, stdout, stderr } = await chaos('--minutes', '1', '--server', 'ensemble');
    // The output of a failure contains the seed.
    expect({ code, stderr, stdout }).toMatchObject({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^no two leases overlap +\d+ +0$/m);
    expect(stdout).toMatch(/^no false deadlock is reported +[1-9]\d* +0$/m);
  });
});
