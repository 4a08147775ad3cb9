import type { LockMode, RunEvent } from '../../sample-app/live/events.js';
import { randomFrom } from './server-script-random.js';

const INSTANCES = 3;

export type NewEvent = RunEvent extends infer E
  ? E extends unknown
    ? Omit<E, 'id'>
    : never
  : never;

/** Gives events their ids in the order of the array. */
export const numbered = (events: readonly NewEvent[], first = 1) =>
  events.map((event, index) => ({ ...event, id: first + index }) as RunEvent);

interface SaleOptions {
  readonly sale: number;
  readonly mode: LockMode;
  readonly at: number;
  readonly buyers: number;
  readonly items: number;
}

/** The events of an undisturbed sale, with times that look like those of real sales. */
export function saleEvents({ sale, mode, at, buyers, items }: SaleOptions): NewEvent[] {
  const random = randomFrom(sale);
  const delay = [20, 60] as const;
  const wait = () => delay[0] + random() * (delay[1] - delay[0]);
  const shares = Array.from({ length: INSTANCES }, (_, i) => Math.floor((buyers + i) / INSTANCES));
  const goods = `phone-${sale}`;
  const events: NewEvent[] = [
    { type: 'sale-started', at, sale, goods, mode, shares, buyers, items, delay },
  ];
  const end = (last: number, sold: number, orders: number, stock: number) => {
    const tally = { sold, soldOut: buyers - sold, refused: 0, unanswered: 0 };
    events.sort((a, b) => a.at - b.at);
    events.push({ type: 'sale-ended', at: last + 8, sale, tally, stock, orders });
    return events;
  };
  if (mode === 'none') {
    let stock = items;
    let last = at;
    const writes: { at: number; stock: number }[] = [];
    const arrivals = Array.from({ length: buyers }, () => at + 5 + random() * 420).sort(
      (a, b) => a - b,
    );
    let sold = 0;
    for (const [index, read] of arrivals.entries()) {
      stock = writes.findLast((write) => write.at <= read)?.stock ?? items;
      if (stock <= 0) continue;
      const written = read + wait();
      writes.push({ at: written, stock: stock - 1 });
      writes.sort((a, b) => a.at - b.at);
      const instance = (index % INSTANCES) + 1;
      const purchase = `${sale}-${index}`;
      events.push({ type: 'stock-read', at: read, instance, sale, purchase, stock });
      events.push({
        ...{ type: 'stock-written', at: written, instance, sale, purchase, stock: stock - 1 },
      });
      last = Math.max(last, written);
      sold += 1;
    }
    return end(last, sold, sold, writes.at(-1)!.stock);
  }
  let time = at + 12;
  const queues = shares.map((share, i) =>
    Array.from({ length: share }, (_, n) => ({
      id: `${sale}-${i + 1}-${n}`,
      at: at + random() * 60,
    })),
  );
  const key = `goods-${goods}`;
  let stock = items;
  let token = 4_294_967_296n * BigInt(sale) + 12n;
  let turn = 0;
  for (let n = 0; n < buyers; n++) {
    if (n % 7 === 0) turn = (turn + 1) % INSTANCES;
    while (queues[turn]!.length === 0) turn = (turn + 1) % INSTANCES;
    const { id: lease, at: requested } = queues[turn]!.shift()!;
    const lock = { instance: turn + 1, lease, sale };
    token += 1n;
    events.push({ type: 'requested', at: requested, ...lock, key });
    const granted = Math.max(time, requested);
    events.push({ type: 'granted', at: granted, ...lock, token: String(token) });
    time = granted + 2;
    if (stock > 0) {
      const step = { instance: turn + 1, sale, purchase: lease, token: String(token) };
      events.push({ type: 'stock-read', at: granted + 1, ...step, stock });
      time = granted + 3 + wait();
      stock -= 1;
      events.push({ type: 'stock-written', at: time - 1, ...step, stock });
    }
    events.push({ type: 'released', at: time, ...lock });
    time += n % 7 === 6 ? 4 : 0.4;
  }
  return end(time, items - stock, items - stock, stock);
}
