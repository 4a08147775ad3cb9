import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { LeaderService, LockService, type Participant } from 'nestjs-zookeeper';
import { catchError, defer, EMPTY, type Observable, repeat, share, timer } from 'rxjs';
import { Not, type Repository } from 'typeorm';
import { goodsKey } from '../shop/goods-stock.service.js';
import { GoodsStock } from '../shop/goods-stock.entity.js';
import { Order } from '../shop/order.entity.js';
import { CLOSE_UNPAID } from '../shop/unpaid-orders.service.js';
import { Fleet, type Place } from './fleet.js';
import { GOODS, type Run, Sale } from './sale.js';

/** Milliseconds between two snapshots, during a sale and otherwise. */
const INTERVAL = 100;
const IDLE_INTERVAL = 400;
/** Number of entries of the lock's queue on the page. */
const SHOWN = 6;

/** Seconds since the first buyer, pieces left, orders. */
type Point = [seconds: number, stock: number, orders: number];

/** Reads the database, the lock's queue, the election and the instances while a page is open. */
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
    private readonly sale: Sale,
  ) {}

  private async look() {
    const since = performance.now();
    const { run } = this.sale;
    // Read before the database, so that figures of an earlier sale are not counted for this one and its last
    // figures are not missed.
    const sale = run && runSnapshot(run);
    const [goods, queue, candidates] = await Promise.all([
      this.stock(),
      this.locks.participants(goodsKey(GOODS)),
      this.leaders.participants(CLOSE_UNPAID),
    ]);
    // With a strict lock each buyer has a znode: reading them all would add load.
    const pause = this.sale.running ? INTERVAL : IDLE_INTERVAL;
    this.pause = Math.max(pause, 3 * (performance.now() - since));
    const leader = candidates.find(({ isLeader }) => isLeader);
    return {
      goods,
      run: sale && { ...sale, point: this.remember(sale, goods) },
      queue: {
        total: queue.length,
        first: queue.slice(0, SHOWN).map((one) => this.queueEntry(one)),
      },
      leader: this.fleet.numberOf(Number(leader?.id.split(':').at(-1))),
      instances: this.fleet.places.map((place) => instanceSnapshot(place, run)),
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
      instance: this.fleet.numberOf(pid),
      state,
      mayLinger,
      session,
    };
  }
}

type RunSnapshot = ReturnType<typeof runSnapshot>;

function runSnapshot({ number, order, state, startedAt, endedAt, shares }: Run) {
  const all = [...shares.values()];
  return {
    number,
    order,
    state,
    over: state === 'over' || state === 'failed',
    seconds: startedAt === undefined ? 0 : ((endedAt ?? performance.now()) - startedAt) / 1000,
    answered: all.reduce((sum, { sold, soldOut, refused }) => sum + sold + soldOut + refused, 0),
  };
}

function instanceSnapshot({ number, instance, starting }: Place, run: Run | undefined) {
  const share = run?.shares.get(number);
  const alive = instance?.alive ?? false;
  return {
    number,
    pid: instance?.pid,
    life: starting ? 'starting' : alive ? 'alive' : 'dead',
    connection: alive ? instance!.connection : undefined,
    sold: share?.sold ?? 0,
    waiting:
      share && !share.over && alive ? share.buyers - share.sold - share.soldOut - share.refused : 0,
  };
}
