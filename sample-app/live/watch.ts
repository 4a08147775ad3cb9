import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { LeaderService, LockService, type Participant } from 'nestjs-zookeeper';
import { catchError, defer, EMPTY, type Observable, repeat, share, timer } from 'rxjs';
import { Not, type Repository } from 'typeorm';
import { goodsKey } from '../shop/goods-stock.service.js';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { Order } from '../shop/order.entity.js';
import { CLOSE_UNPAID } from '../shop/unpaid-orders.service.js';
import { EventStore } from './event-store.js';
import { Fleet } from './fleet.js';
import type { Sale } from './sale.js';
import { GOODS, Sales } from './sales.js';
import type { Slot } from './slot.js';

/** Milliseconds between two snapshots, during a sale and otherwise. */
const INTERVAL = 100;
const IDLE_INTERVAL = 400;
/** Number of entries of the lock's queue on the page. */
const SHOWN = 6;

/** Seconds since the first buyer, pieces left, orders. */
type Point = [seconds: number, stock: number, orders: number];

/** For the page until it is drawn from the events. Reads the database, the lock's queue, the election and the instances while a page is open. */
@Injectable()
export class Watch {
  /** Of the present run. */
  history: Point[] = [];
  private seen = 0;
  private pause = IDLE_INTERVAL;

  readonly snapshots: Observable<object> = defer(() => this.look()).pipe(
    // ZooKeeper or the database may be unavailable now; the next snapshot tries again.
    catchError(() => EMPTY),
    repeat({ delay: () => timer(this.pause) }),
    share(),
  );

  constructor(
    @InjectRepository(GoodsStock) private readonly goods: Repository<GoodsStock>,
    @InjectRepository(Order) private readonly orders: Repository<Order>,
    private readonly locks: LockService,
    private readonly leaders: LeaderService,
    private readonly fleet: Fleet,
    private readonly sales: Sales,
    private readonly store: EventStore,
  ) {}

  private async look() {
    const since = performance.now();
    const [run] = this.sales.latest;
    // Read before the database, so that figures of an earlier sale are not counted for this one and its last
    // figures are not missed.
    const sale = run && this.runSnapshot(run);
    const [goods, queue, candidates] = await Promise.all([
      this.stock(),
      this.locks.participants(goodsKey(GOODS)),
      this.leaders.participants(CLOSE_UNPAID),
    ]);
    // With a strict lock each buyer has a znode: reading them all would add load.
    const pause = this.sales.running ? INTERVAL : IDLE_INTERVAL;
    this.pause = Math.max(pause, 3 * (performance.now() - since));
    const leader = candidates.find(({ isLeader }) => isLeader);
    return {
      goods,
      run: sale && { ...sale, point: this.remember(sale, goods) },
      queue: {
        total: queue.length,
        first: queue.slice(0, SHOWN).map((one) => this.queueEntry(one)),
      },
      leader: this.numberOf(Number(leader?.id.split(':').at(-1))),
      instances: this.fleet.slots.map((slot) => this.instanceSnapshot(slot, run)),
    };
  }

  private async stock() {
    // As text: SQLite's driver would read the fence as a double.
    const goods = await this.goods
      .createQueryBuilder('goods')
      .select('goods.stock', 'stock')
      .addSelect("CONCAT('', goods.fence)", 'fence')
      .where({ goodsNo: GOODS })
      .getRawOne<{ stock: number; fence: string }>();
    const orders = await this.orders.countBy({ goodsNo: GOODS, state: Not('closed') });
    return { stock: goods!.stock, fence: goods!.fence, orders };
  }

  /** Adds a point to the sale's chart. */
  private remember(
    { number, state, seconds }: RunSnapshot,
    { stock, orders }: { stock: number; orders: number },
  ): Point | undefined {
    if (number !== this.seen) {
      this.seen = number;
      this.history = [];
    }
    if (state === 'preparing') return undefined;
    const point: Point = [Number(seconds.toFixed(2)), stock, orders];
    if (this.history.length === 0 || point[0] > this.history.at(-1)![0]) this.history.push(point);
    return point;
  }

  private queueEntry({ path, state, mayLinger, pid, session }: Participant) {
    return {
      node: path.slice(path.lastIndexOf('/') + 1),
      instance: this.numberOf(pid),
      state,
      mayLinger,
      session,
    };
  }

  private numberOf(pid: number | undefined): number | undefined {
    return this.fleet.slots.find(({ instance }) => instance?.pid === pid)?.number;
  }

  private runSnapshot({ number, order, state, tally }: Sale) {
    const at = (type: string) =>
      this.store.events.findLast((e) => e.type === type && 'sale' in e && e.sale === number)?.at;
    const startedAt = at('sale-started');
    return {
      number,
      order,
      state,
      over: state === 'over' || state === 'failed',
      seconds:
        startedAt === undefined ? 0 : ((at('sale-ended') ?? this.store.now()) - startedAt) / 1000,
      answered: tally.sold + tally.soldOut + tally.refused,
    };
  }

  private instanceSnapshot({ number, instance, life, connection }: Slot, run: Sale | undefined) {
    const sold = this.store.events.filter(
      (e) => e.type === 'stock-written' && e.sale === run?.number && e.instance === number,
    );
    const { connection: state = 'CONNECTING', session } = connection;
    return {
      number,
      pid: instance?.pid,
      life,
      connection: life === 'alive' ? { state, session } : undefined,
      sold: sold.length,
      waiting: 0,
    };
  }
}

interface RunSnapshot {
  number: number;
  state: Sale['state'];
  seconds: number;
}
