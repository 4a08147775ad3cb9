import { UNLOCKED_GOODS } from '../sales.js';
import type { Story } from './story.js';

/** Two sales with the same settings, one with a lock and one without, which oversells. */
export async function oversell(story: Story<'oversell'>): Promise<void> {
  const order = { mode: 'lock', buyers: 60, items: 20, delay: [100, 300] } as const;
  const over = story.stage.sales.startBoth(order);
  const { sale } = await story.next('sale-started', ({ goods }) => goods === UNLOCKED_GOODS);
  story.caption('start');
  const read = new Set<number>();
  const { instance } = await story.next('stock-read', (event) => {
    if (event.sale !== sale) return false;
    const isSecond = read.has(event.stock);
    read.add(event.stock);
    return isSecond;
  });
  story.caption('same-stock', instance);
  await over;
  story.caption('end');
}
