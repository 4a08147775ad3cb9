import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { childrenOf, running } from '../support/processes.js';
import { RealZooKeeper } from '../support/real-zookeeper.js';

interface Summary {
  seed: number;
  transport: string;
  faults: Record<string, number>;
  leases: Record<string, number>;
  checks: { name: string; made: number; violations: number }[];
}

const start = (...args: string[]) => startCommand('dist-scripts/chaos.mjs', args);

const chaos = (...args: string[]) => start(...args).ended;

describe('npm run chaos', { retry: 0, timeout: 400_000 }, () => {
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

  it('finds no violation on an ensemble, if one is installed, with a random seed', async () => {
    const server = RealZooKeeper.isInstalled() ? 'ensemble' : 'embedded';
    const { code, stdout, stderr } = await chaos('--minutes', '1', '--server', server);
    // The output of a failure contains the seed.
    expect({ code, stderr, stdout }).toMatchObject({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^no two leases overlap +\d+ +0$/m);
    expect(stdout).toMatch(/^no false deadlock is reported +[1-9]\d* +0$/m);
  });

  it.each([
    ['--minutes', '0'],
    ['--seed', '1.5'],
    ['--workers', '1'],
    ['--server', 'real'],
    ['--transport', 'pigeon'],
    ['--loud'],
  ])('rejects %s %s', async (...args) => {
    const [name, value] = args;
    const { code, stdout, stderr } = await chaos(value ? `${name}=${value}` : name!);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(name);
  });

  it('prints the seed and stops its processes when it is interrupted', async () => {
    const { child, ended } = start('--seed', '5', '--server', 'embedded');
    await expect.poll(() => childrenOf(child.pid!)).toHaveLength(4);
    const workers = childrenOf(child.pid!);
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'FAILED with --seed 5: interrupted\n' });
    expect(running(workers)).toEqual([]);
  });
});
