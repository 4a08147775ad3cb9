import { randomFillSync, randomInt } from 'node:crypto';
import {
  setImmediate as nextTurn,
  setInterval as every,
  setTimeout as pause,
} from 'node:timers/promises';
import { promisify } from 'node:util';
import { simulate } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

describe('time in a simulation', () => {
  it('passes faster than real time: an hour takes less than ten seconds', async () => {
    const before = performance.now();
    const { duration } = await simulate({ seed: 1, limit: 4_000_000 }, async () => {
      await pause(3_600_000);
    });
    expect(duration).toBeGreaterThan(3_599_999);
    expect(duration).toBeLessThan(3_600_002);
    expect(performance.now() - before).toBeLessThan(10_000);
  });

  it('is the same for every clock', async () => {
    await simulate({ seed: 2 }, async () => {
      const start = {
        date: Date.now(),
        monotonic: performance.now(),
        high: process.hrtime.bigint(),
        uptime: process.uptime(),
      };
      expect(new Date(start.date).toISOString()).toMatch(/^2026-01-01T00:00:00/);
      await pause(1234);
      expect(performance.now() - start.monotonic).toBeCloseTo(1234, -1);
      expect(Date.now() - start.date).toBeCloseTo(1234, -1);
      expect(new Date().getTime() - start.date).toBeCloseTo(1234, -1);
      expect(Number(process.hrtime.bigint() - start.high) / 1e6).toBeCloseTo(1234, -1);
      expect((process.uptime() - start.uptime) * 1000).toBeCloseTo(1234, -1);
      const [seconds, nanoseconds] = process.hrtime();
      expect(seconds * 1000 + nanoseconds / 1e6).toBeCloseTo(performance.now(), -1);
    });
  });

  it('keeps the order of timers with the same delay for every seed', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const fired: number[] = [];
      await simulate({ seed }, (world) =>
        world.process('a').run(async () => {
          for (let index = 0; index < 5; index++) setTimeout(() => fired.push(index), 7);
          await pause(20);
        }),
      );
      expect(fired).toEqual([0, 1, 2, 3, 4]);
    }
  });

  it('lets the seed decide the order of timers with different delays that are due at the same time', async () => {
    const orders = new Set<string>();
    for (let seed = 1; seed <= 20; seed++) {
      const fired: string[] = [];
      await simulate({ seed }, async () => {
        setTimeout(() => fired.push('early'), 10);
        await pause(5);
        setTimeout(() => fired.push('late'), 5);
        await pause(20);
      });
      orders.add(fired.join());
    }
    expect([...orders].sort()).toEqual(['early,late', 'late,early']);
  });

  it('runs all waiting immediates in one turn, and immediates that they start in the next turn', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const ran: string[] = [];
      await simulate({ seed }, async () => {
        setImmediate(() => {
          ran.push('first');
          setImmediate(() => ran.push('nested'));
          process.nextTick(() => ran.push('tick'));
          void Promise.resolve().then(() => ran.push('microtask'));
        });
        setImmediate(() => ran.push('second'));
        setImmediate(() => ran.push('third'));
        await pause(5);
      });
      expect(ran).toEqual(['first', 'tick', 'microtask', 'second', 'third', 'nested']);
    }
  });

  it('has timers with arguments, refresh(), hasRef() and Symbol.dispose, which end by object or number', async () => {
    await simulate({ seed: 3 }, async () => {
      const calls: unknown[] = [];
      setTimeout((...args: unknown[]) => calls.push(args), 1, 'a', 'b');
      clearTimeout(setTimeout(() => calls.push('cleared'), 1));
      clearTimeout(Number(setTimeout(() => calls.push('cleared by number'), 1)));
      clearImmediate(setImmediate(() => calls.push('cleared immediate')));
      setTimeout(() => calls.push('disposed'), 1)[Symbol.dispose]();
      const interval = setInterval(() => calls.push('tick'), 10);
      const id = Number(interval);
      await pause(35);
      clearInterval(id);
      await pause(100);
      expect(calls).toEqual([['a', 'b'], 'tick', 'tick', 'tick']);
      const timer = setTimeout(() => calls.push('refreshed'), 10);
      expect(timer.hasRef()).toBe(true);
      expect(timer.unref().hasRef()).toBe(false);
      await pause(8);
      timer.refresh();
      await pause(8);
      expect(calls).toHaveLength(4);
      await pause(8);
      expect(calls).toHaveLength(5);
    });
  });

  it('replaces invalid delays with 1 ms, as Node does', async () => {
    await simulate({ seed: 4 }, async () => {
      for (const delay of [undefined, NaN, -5, 0, 0.5, 2 ** 31]) {
        const before = performance.now();
        await pause(delay);
        expect(performance.now() - before).toBeLessThan(2.1);
      }
    });
  });

  it('rejects a promised timer that is aborted, and ends AbortSignal.timeout in virtual time', async () => {
    await simulate({ seed: 6 }, async () => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(new Error('enough')), 10);
      await expect(pause(1000, undefined, { signal: controller.signal })).rejects.toMatchObject({
        name: 'AbortError',
        code: 'ABORT_ERR',
      });
      expect(performance.now()).toBeLessThan(20);
      const signal = AbortSignal.timeout(500);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
      expect(performance.now()).toBeGreaterThan(500);
    });
  });

  it('includes promisify() and the functions of node:timers/promises', async () => {
    await simulate({ seed: 7 }, async () => {
      await promisify(setTimeout)(50);
      expect(await promisify(setImmediate)('value')).toBe('value');
      expect(await nextTurn('y')).toBe('y');
      expect(performance.now()).toBeGreaterThan(50);
      expect(performance.now()).toBeLessThan(55);
    });
  });

  it('has promised intervals that fire at multiples of the interval, however slow the consumer is', async () => {
    const { value } = await simulate({ seed: 1 }, async () => {
      const start = performance.now();
      const times: number[] = [];
      for await (const item of every(100, 'x')) {
        expect(item).toBe('x');
        await pause(times.length === 1 ? 250 : 30);
        if (times.push(Math.round(performance.now() - start)) === 5) break;
      }
      const controller = new AbortController();
      setTimeout(() => controller.abort(new Error('enough')), 25);
      const aborted = async () => {
        const { signal } = controller;
        for await (const item of every(10, 'y', { signal })) times.push(item.length);
      };
      await expect(aborted()).rejects.toMatchObject({
        name: 'AbortError',
        cause: { message: 'enough' },
      });
      return times;
    });
    // The values of 300 ms and 400 ms are waiting when the slow consumer is ready at 450 ms.
    expect(value).toEqual([130, 450, 480, 510, 540, 1, 1]);
  });

  it('passes invalid arguments to the functions of Node, which throw', async () => {
    await simulate({ seed: 1 }, () => {
      expect(() => randomInt(5, 3)).toThrow('out of range');
      expect(() => randomInt('x' as never)).toThrow('safe integer');
      expect(() => randomFillSync(new Uint8Array(4), 5)).toThrow('out of range');
      expect(() => randomFillSync('x' as never)).toThrow('must be an instance of');
      expect(() => AbortSignal.timeout(-1)).toThrow('out of range');
      expect(() => crypto.getRandomValues(new Uint8Array(65_537))).toThrow('65,536');
      expect(() => crypto.getRandomValues(new Float32Array(1) as never)).toThrow('integer');
      const buffer = new ArrayBuffer(8);
      randomFillSync(buffer as never);
      expect(new Uint8Array(buffer)).not.toEqual(new Uint8Array(8));
      expect(randomInt(3, 4)).toBe(3);
    });
  });

  it('advances in a loop that polls a clock', async () => {
    await simulate({ seed: 8 }, async () => {
      const until = Date.now() + 50;
      while (Date.now() < until);
      const end = performance.now() + 50;
      while (performance.now() < end);
      expect(performance.now()).toBeGreaterThan(99);
    });
  });
});
