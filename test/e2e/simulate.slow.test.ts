import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { childrenOf, running } from '../support/processes.js';

interface Figures {
  seeds: number;
  grants: number;
  violations: number;
  grantsPerSecond: number;
  seedsPerHour: number;
  digest?: string;
  failures: { seed: number; property: string; command: string }[];
}

const directory = mkdtempSync(join(tmpdir(), 'simulate-test-'));
afterAll(() => rmSync(directory, { recursive: true }));

const start = (...args: string[]) => startCommand('dist-scripts/simulation/main.js', args);
const simulate = (...args: string[]) => start(...args).ended;

/** Returns the JSON object on the last line of stdout. */
function figuresOf(stdout: string): Figures {
  return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Figures;
}

/** Returns the exit code that matches the figures. Other tests check whether the library passes. */
const expectedCode = ({ violations }: Figures) => (violations > 0 ? 1 : 0);

describe('npm run simulate', () => {
  it('runs seeds in worker processes', async () => {
    const args = ['--from', '1', '--seeds', '2', '--workers', '2', '--json'];
    const { code, stdout } = await simulate(...args);
    const figures = figuresOf(stdout);
    expect(figures).toMatchObject({ seeds: 2, from: 1, workers: 2, interrupted: false });
    expect(code).toBe(expectedCode(figures));
    for (const name of ['grants', 'grantsPerSecond', 'seedsPerHour'] as const) {
      expect(figures[name]).toBeGreaterThan(0);
    }
  });

  it('prints the figures as text', async () => {
    const { code, stdout } = await simulate('--from', '5', '--seeds', '1');
    expect(stdout).toMatch(/^from seed 5, workers: 1$/m);
    expect(stdout).toMatch(/^seeds +1$/m);
    expect(stdout).toMatch(/^grants per second and core +[\d,]+$/m);
    expect(code).toBe(/^violations +0$/m.test(stdout) ? 0 : 1);
  });

  it('ends quietly if the reader of its output ends', () => {
    const command = 'node dist-scripts/simulation/main.js --from 5 --seeds 2 --workers 1 | head -1';
    const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
    expect({ stdout, stderr }).toEqual({ stdout: 'from seed 5, workers: 1\n', stderr: '' });
  });

  it('replays a seed in its own process with the same digest, and writes a trace', async () => {
    const trace = join(directory, 'trace.html');
    const first = await simulate('--seed', '6', '--json', '--trace', trace);
    const second = await simulate('--seed', '6', '--json');
    const { digest, ...figures } = figuresOf(first.stdout);
    expect(digest).toMatch(/^[0-9a-f]{16}$/);
    expect(figures).toMatchObject({ seeds: 1, seed: 6 });
    expect(first.code).toBe(expectedCode(figures));
    expect(figuresOf(second.stdout).digest).toBe(digest);
    expect(readFileSync(trace, 'utf8')).toContain(digest);
  });

  it('prints the figures and kills its workers when it is interrupted', async () => {
    const { child, ended } = start('--minutes', '10', '--workers', '2', '--json');
    await expect.poll(() => childrenOf(child.pid!)).toHaveLength(2);
    const workers = childrenOf(child.pid!);
    child.kill('SIGINT');
    const { code, stdout } = await ended;
    expect(code).toBe(130);
    expect(figuresOf(stdout)).toMatchObject({ interrupted: true });
    expect(running(workers)).toEqual([]);
  });
});
