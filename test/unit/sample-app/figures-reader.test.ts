import type { Repository } from 'typeorm';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EventStore } from '../../../sample-app/live/event-store.js';
import { FiguresReader } from '../../../sample-app/live/figures-reader.js';
import type { GoodsStock } from '../../../sample-app/shop/goods-stock.entity.js';
import type { Order } from '../../../sample-app/shop/order.entity.js';

describe('the reader of the figures', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  it('sends no further query while the database is silent', async () => {
    const answers: ((row: object) => void)[] = [];
    const goods = {
      createQueryBuilder: () => goods,
      select: () => goods,
      addSelect: () => goods,
      where: () => goods,
      setParameter: () => goods,
      getRawOne: () => new Promise((resolve) => answers.push(resolve)),
    };
    const reader = new FiguresReader(
      goods as unknown as Repository<GoodsStock>,
      { countBy: async () => 7 } as unknown as Repository<Order>,
      new EventStore(),
    );
    for (let reads = 0; reads < 3; reads++) {
      const late = expect(reader.read('phone')).rejects.toThrow(
        'the database did not answer within 2000 ms',
      );
      await vi.advanceTimersByTimeAsync(2_000);
      await late;
    }
    expect(answers).toHaveLength(1);

    const read = reader.read('phone');
    answers[0]!({ stock: 1, fence: '1' });
    await vi.waitFor(() => expect(answers).toHaveLength(2));
    answers[1]!({ stock: 0, fence: '2' });
    expect(await read).toMatchObject({ stock: 0, fence: '2', orders: 7 });
  });
});
