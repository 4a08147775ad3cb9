import { expect, describe, it } from 'vitest';
import { RealZooKeeper } from '../support/real-zookeeper.js';
import { running } from '../support/processes.js';
import { expectExactSale, seckill, startSeckill } from './seckill-process.js';

const SMALL = ['--buyers', '200', '--items', '20'];
/** Options of a run that is slow enough to be interrupted. */
const SLOW = ['--buyers', '200', '--items', '150', '--delay', '50'];

describe('the seckill', () => {
  it('oversells without a lock and sells exactly the stock with it', async () => {
    const { code, result, stdout, left } = await seckill(...SMALL);
    expect(result.unlocked).toMatchObject({ requests: 200, errors: 0 });
    expect(result.unlocked.oversold).toBe(result.unlocked.orders - 20);
    expect(result.unlocked.oversold).toBeGreaterThan(0);
    expect(result.locked).toMatchObject({
      requests: 200,
      orders: 20,
      stockLeft: 0,
      oversold: 0,
      errors: 0,
    });
    expect(code).toBe(0);
    expect(stdout.trimEnd()).toBe(JSON.stringify(result));
    const fields = 'requests orders stockLeft oversold errors throughput p50 p99'.split(' ');
    for (const run of [result.unlocked, result.locked]) expect(Object.keys(run)).toEqual(fields);
    expect(left).toEqual([]);
  });

  it('sells exactly the stock with the lock of a real ZooKeeper', async () => {
    const zookeeper = await RealZooKeeper.start();
    try {
      await expectExactSale('--zookeeper', `127.0.0.1:${zookeeper.port}`);
    } finally {
      await zookeeper.dispose();
    }
  });

  it('prints a table and a sentence on stdout, and its progress on stderr', async () => {
    const { stdout, stderr } = await (await startSeckill(...SMALL)).ended;
    expect(stdout).toMatch(
      /^ +requests +orders +stock left +oversold +throughput +p50 +p99 +errors$/m,
    );
    expect(stdout).toMatch(/^locked +200 +20 +0 +0 /m);
    expect(stdout).toMatch(/With @DistributedLock it sold exactly 20\.\n$/);
    expect(stderr).toMatch(/^locked: \d+ sold, /m);
  });

  it.each([
    ['--nonsense', "seckill: Unknown option '--nonsense'\n"],
    ['--buyers=none', "seckill: --buyers must be a whole number from 1 to 20000, but is 'none'\n"],
  ])('rejects %s with one line', async (flag, line) => {
    const { code, stdout, stderr } = await (await startSeckill(flag)).ended;
    expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: '', stderr: line });
  });

  it('explains itself', async () => {
    const { code, stdout } = await (await startSeckill('--help')).ended;
    expect(stdout).toMatch(/^npm run seckill -- \[options\]/);
    expect(code).toBe(0);
  });

  it('names in one line the database that it cannot reach, without its password', async () => {
    const run = await startSeckill('--database', 'mysql://me:secret@127.0.0.1:1/shop');
    const { code, stderr, left } = await run.ended;
    expect(stderr).toMatch(/^seckill: .*127\.0\.0\.1:1.*\n$/);
    expect(stderr).not.toContain('secret');
    expect({ code, left }).toEqual({ code: 1, left: [] });
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'leaves no process behind after %s in the middle of a run',
    async (signal, expected) => {
      const run = await startSeckill(...SLOW);
      await run.says(/^locked: /m);
      run.child.kill(signal);
      const { code, stdout, left } = await run.ended;
      expect({ code, stdout, left }).toEqual({ code: expected, stdout: '', left: [] });
      expect(run.instancePids()).toHaveLength(3);
      expect(running(run.instancePids())).toEqual([]);
    },
  );

  it('stops its instances when it is killed itself', async () => {
    const run = await startSeckill(...SLOW);
    await run.says(/^locked: /m);
    run.child.kill('SIGKILL');
    // The instances share its stderr, so the stream closes when the last one has exited.
    await run.ended;
    await expect.poll(() => running(run.instancePids())).toEqual([]);
  });

  it('continues when an instance is killed in the locked run, and reports it', async () => {
    const run = await startSeckill('--json', ...SLOW, '--items', '100');
    await run.says(/^locked: [1-9]/m);
    process.kill(run.instancePids()[1], 'SIGKILL');
    const { code, stdout, stderr } = await run.ended;
    const { locked } = JSON.parse(stdout);
    expect(stderr).toMatch(
      /^instance 2 died \(SIGKILL\): its buyers get no answer, the others continue$/m,
    );
    expect(locked).toMatchObject({ orders: 100, stockLeft: 0 });
    expect(locked.errors).toBeGreaterThan(0);
    expect(locked.errors).toBeLessThanOrEqual(67);
    expect(code).toBe(0);
  });
});
