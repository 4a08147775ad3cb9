import { describe, expect, it } from 'vitest';
import { outcome, runResult, soldExactly, table } from '../../../sample-app/seckill/result.js';

const load = { requests: 1500, errors: 0, throughput: 812, p50: 900, p99: 1800 };
const result = {
  unlocked: runResult(load, { orders: 1437, stock: 12, items: 100 }),
  locked: runResult(load, { orders: 100, stock: 0, items: 100 }),
};

describe('the result of the seckill', () => {
  it('has a fixed JSON, a sentence and a table with aligned columns', () => {
    expect(JSON.stringify(result.unlocked)).toBe(
      '{"requests":1500,"orders":1437,"stockLeft":12,"oversold":1337,"errors":0,"throughput":812,"p50":900,"p99":1800}',
    );
    expect(outcome(result, 100)).toBe(
      'Without a lock the shop took 1,437 orders for 100 items: 1,337 too many. With @DistributedLock it sold exactly 100.',
    );
    expect(table(result)).toBe(
      [
        '          requests  orders  stock left  oversold  throughput     p50       p99  errors',
        'unlocked     1,500   1,437          12     1,337       812/s  900 ms  1,800 ms       0',
        'locked       1,500     100           0         0       812/s  900 ms  1,800 ms       0',
      ].join('\n'),
    );
  });

  it.each([
    { orders: 101, stock: 0 },
    { orders: 100, stock: 1 },
    { orders: 99, stock: 1 },
  ])('accepts only the exact stock as correct: $orders orders, $stock left', (state) => {
    const locked = runResult(load, { ...state, items: 100 });
    expect(soldExactly(locked, 100)).toBe(false);
    expect(outcome({ ...result, locked }, 100)).toContain('NOT exactly');
  });
});
