import type { ScenarioRun } from './scenario-run.js';

/** The lock moves on while its holder sleeps for longer than its session, and the fence refuses the holder's write. */
export async function sleepingHolder(run: ScenarioRun<'sleeping-holder'>): Promise<void> {
  const { sales, fleet } = run.context;
  const order = { mode: 'lock', buyers: 24, items: 10, delay: [500, 500] } as const;
  const selling = sales.start(order);
  const { sale } = await run.next('sale-started');
  run.caption('start');

  // It has the lock, and writes after the delay.
  const { instance } = await run.next(
    'stock-read',
    (event) => event.sale === sale && event.stock < order.items - 1,
  );
  const holder = fleet.slot(instance);
  holder.pause(2 * (fleet.sessionTimeout / 1000));
  run.caption('sleep', instance);

  const next = await run.next(
    'stock-read',
    (event) => event.sale === sale && event.instance !== instance,
  );
  run.caption('moved-on', next.instance);
  await run.next('stock-written', (event) => event.sale === sale);

  holder.resume();
  run.caption('wake', instance);
  for (const awaited = new Set(['write-refused', 'lost']); awaited.size > 0;) {
    const { type } = await run.next(
      ['write-refused', 'lost'],
      (event) => event.instance === instance && event.sale === sale && awaited.has(event.type),
    );
    awaited.delete(type);
    run.caption(type === 'lost' ? 'lost' : 'refused', instance);
  }
  const [orders] = await run.orders(selling);
  run.end(orders === order.items);
}
