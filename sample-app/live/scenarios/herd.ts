import type { ScenarioRun } from './scenario-run.js';

/** Many buyers wait for a strict lock, each with its own znode: a release wakes one of them. */
export async function herd(run: ScenarioRun<'herd'>): Promise<void> {
  const order = { mode: 'strict', buyers: 60, items: 20, delay: [200, 300] } as const;
  const selling = run.context.sales.start(order);
  const { sale } = await run.next('sale-started');
  run.caption('start');
  for (let waiting = 0; waiting < order.buyers; waiting++) {
    await run.next('requested', (event) => event.sale === sale);
  }
  run.caption('queue');
  await run.next('released', (event) => event.sale === sale);
  const { instance } = await run.next('granted', (event) => event.sale === sale);
  run.caption('release', instance);
  const [orders] = await run.orders(selling);
  run.end(orders === order.items);
}
