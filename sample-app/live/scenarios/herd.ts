import type { Story } from './story.js';

/** Many buyers wait for a strict lock, each with its own znode: a release wakes one of them. */
export async function herd(story: Story<'herd'>): Promise<void> {
  const order = { mode: 'strict', buyers: 60, items: 20, delay: [200, 300] } as const;
  const over = story.stage.sales.start(order);
  const { sale } = await story.next('sale-started');
  story.caption('start');
  for (let waiting = 0; waiting < order.buyers; waiting++) {
    await story.next('requested', (event) => event.sale === sale);
  }
  story.caption('queue');
  await story.next('released', (event) => event.sale === sale);
  const { instance } = await story.next('granted', (event) => event.sale === sale);
  story.caption('release', instance);
  await over;
  story.caption('end');
}
