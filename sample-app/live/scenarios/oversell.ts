import { UNLOCKED_GOODS } from '../sales.js';
import type { ScenarioRun } from './scenario-run.js';

/** Two sales with the same settings, one with a lock and one without, which oversells. */
export async function oversell(run: ScenarioRun<'oversell'>): Promise<void> {
  const order = { mode: 'lock', buyers: 60, items: 20, delay: [100, 300] } as const;
  const selling = run.context.sales.startBoth(order);
  const { sale } = await run.next('sale-started', ({ goods }) => goods === UNLOCKED_GOODS);
  run.caption('start');
  const read = new Set<number>();
  const { instance } = await run.next('stock-read', (event) => {
    if (event.sale !== sale) return false;
    const isSecond = read.has(event.stock);
    read.add(event.stock);
    return isSecond;
  });
  run.caption('same-stock', instance);
  const [locked, unlocked = 0] = await run.orders(selling);
  run.end(locked === order.items && unlocked > order.items);
}
