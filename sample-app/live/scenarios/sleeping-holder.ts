import type { Story } from './story.js';

/** The lock moves on while its holder sleeps for longer than its session, and the fence refuses the holder's write. */
export async function sleepingHolder(story: Story<'sleeping-holder'>): Promise<void> {
  const { sales, fleet } = story.stage;
  const order = { mode: 'lock', buyers: 24, items: 10, delay: [500, 500] } as const;
  const over = sales.start(order);
  const { sale } = await story.next('sale-started');
  story.caption('start');

  // It has the lock, and writes after the delay.
  const { instance } = await story.next(
    'stock-read',
    (event) => event.sale === sale && event.stock < order.items - 1,
  );
  const holder = fleet.slot(instance);
  holder.pause(2 * (fleet.sessionTimeout / 1000));
  story.caption('sleep', instance);

  const next = await story.next(
    'stock-read',
    (event) => event.sale === sale && event.instance !== instance,
  );
  story.caption('moved-on', next.instance);
  await story.next('stock-written', (event) => event.sale === sale);

  holder.resume();
  story.caption('wake', instance);
  for (const awaited = new Set(['write-refused', 'lost']); awaited.size > 0;) {
    const { type } = await story.next(
      ['write-refused', 'lost'],
      (event) => event.instance === instance && event.sale === sale && awaited.has(event.type),
    );
    awaited.delete(type);
    story.caption(type === 'lost' ? 'lost' : 'refused', instance);
  }
  await over;
  story.caption('end');
}
