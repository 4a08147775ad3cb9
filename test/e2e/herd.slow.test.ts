import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../support/command.js';
import { RealZooKeeper } from '../support/real-zookeeper.js';

interface Told {
  notifications: number;
  wakeUps: number;
}

interface Report {
  sessions: { count: number };
  results: {
    recipe: string;
    waiters: number;
    arrival: Told;
    release: Told & { inVain: number };
    allReleases: Told & { inVain: number };
  }[];
  failures: string[];
}

const start = (...args: string[]) => startCommand('dist-scripts/herd.mjs', args);

const herd = (...args: string[]) => start(...args).ended;

const TEACHING = ['single node (teaching)', 'child watch (teaching)'];
const REAL = ['Mutex', 'ReadWriteLock, writers'];

function showsTheHerd({ results }: Report, waiters: number): void {
  const of = (recipe: string) =>
    results.find((result) => result.recipe === recipe && result.waiters === waiters);
  const inAll = (waiters * (waiters + 1)) / 2;
  for (const recipe of TEACHING) {
    expect(of(recipe)).toMatchObject({
      release: { notifications: waiters, wakeUps: waiters, inVain: waiters - 1 },
      allReleases: { notifications: inAll, wakeUps: inAll },
    });
  }
  for (const recipe of REAL) {
    expect(of(recipe)).toMatchObject({
      arrival: { notifications: 0 },
      release: { notifications: 1, wakeUps: 1, inVain: 0 },
      allReleases: { notifications: waiters, wakeUps: waiters, inVain: 0 },
    });
  }
  expect(of('child watch (teaching)')!.arrival.wakeUps).toBe(waiters - 1);
}

describe('npm run bench:herd', () => {
  it('measures that a release wakes n waiters of a teaching recipe, n - 1 of them in vain, and one of a real recipe', async () => {
    const { code, stdout, stderr } = await herd('--json', '--waiters', '7,1,3');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const report = JSON.parse(stdout) as Report;
    expect(report).toMatchObject({ sessions: { count: 8 }, failures: [] });
    expect(report.results).toHaveLength(12);
    for (const waiters of [1, 3, 7]) showsTheHerd(report, waiters);
  });

  it('measures the same on a real ZooKeeper', async () => {
    const zookeeper = await RealZooKeeper.start();
    try {
      const at = `127.0.0.1:${zookeeper.port}`;
      const { code, stdout } = await herd('--json', '--waiters', '5', '--zookeeper', at);
      expect(code).toBe(0);
      showsTheHerd(JSON.parse(stdout) as Report, 5);
    } finally {
      await zookeeper.dispose();
    }
  });

  it('prints a table and a chart', async () => {
    const { code, stdout } = await herd('--waiters', '2');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^single node \(teaching\) +2 +2 +2 +1 +3 +0$/m);
    expect(stdout).toMatch(/^ReadWriteLock, writers +2 +1 +1 +0 +2 +0$/m);
    expect(stdout).toMatch(/^child watch \(teaching\) +#-+ 2$/m);
    expect(stdout).toMatch(/^Mutex +# 1$/m);
  });

  it('exits with an error if no ZooKeeper is running', async () => {
    const { code, stderr } = await herd('--waiters', '1', '--zookeeper', '127.0.0.1:1');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^FAILED: connection 1 of 2/m);
  });

  it('exits when it is interrupted', async () => {
    const { child, ended } = start('--waiters', '100');
    // It prints the participants once all are connected.
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'FAILED: interrupted\n' });
  });
});
