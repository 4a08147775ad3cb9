import { simulate, type World } from 'nestjs-zookeeper/testing';
import type { LockMode, SaleSettings, SaleStatus, Status, Tally } from '../live/events.js';
import { EventLog } from './event-log.js';
import { type PlannedFault, planFaults } from './fault-plan.js';
import type { Recording } from './recording.js';
import { SimulatedDatabase } from './simulated-database.js';
import { type SimulatedSale, SimulatedShop } from './simulated-shop.js';

const INSTANCES = 3;

/** Milliseconds between two states. */
const STATUS_INTERVAL = 200;

export interface RunSettings extends SaleSettings {
  readonly seed: number;
  /** One sale for each mode. All sales start at the same time. */
  readonly modes: readonly LockMode[];
  readonly faults: boolean;
}

export interface SimulatedRun extends Recording {
  /** Two runs with the same digest had the same events. */
  readonly digest: string;
}

/** Simulates the flash sale: the shops, their network, an ensemble of three servers and a database. */
export async function simulateRun(settings: RunSettings): Promise<SimulatedRun> {
  const { seed } = settings;
  const { digest, value } = await simulate({ seed, servers: 3 }, (world) => run(world, settings));
  return { digest, ...value };
}

async function run(world: World, settings: RunSettings): Promise<Recording> {
  const log = new EventLog(world);
  const database = new SimulatedDatabase(world.random);
  const surroundings = { world, log, database, holders: new Map() };
  const shops = Array.from({ length: INSTANCES }, (_, i) => new SimulatedShop(i + 1, surroundings));
  await Promise.all(shops.map((shop) => shop.start()));

  const sales = settings.modes.map((mode, i) => new SaleRun(i + 1, mode, settings, database));
  const statuses: Status[] = [];
  const takeStatus = () => {
    const { now } = log;
    statuses.push({
      at: now,
      ensemble: { answers: true, confirmedAt: now },
      instances: shops.map((shop) => shop.status()),
      sales: sales.map((sale) => sale.status(now)),
    });
  };
  let over = false;
  const takeStatuses = async () => {
    for (; !over; await world.sleep(STATUS_INTERVAL)) takeStatus();
  };
  const watching = takeStatuses();
  const faults = settings.faults ? injectFaults(world, shops) : undefined;
  await Promise.all(sales.map((sale) => sale.run(shops, log)));
  await faults;
  over = true;
  await watching;
  takeStatus();
  return { events: log.events, statuses };
}

async function injectFaults(world: World, shops: readonly SimulatedShop[]): Promise<void> {
  const inject = async ({ fault, at, duration }: PlannedFault) => {
    await world.sleep(at);
    const healthy = shops.filter((shop) => shop.healthy);
    const shop = healthy.find(({ holds }) => holds) ?? world.random.pick(healthy);
    const end = shop.inject(fault);
    await world.sleep(duration);
    await end();
  };
  await Promise.all(planFaults(world.random).map(inject));
}

/** One sale and the answers of its buyers. */
class SaleRun {
  readonly #sale: SimulatedSale;
  readonly #answers = { sold: 0, soldOut: 0, refused: 0 };
  #over = false;

  constructor(
    sale: number,
    mode: LockMode,
    { modes, buyers, items, delay }: RunSettings,
    private readonly database: SimulatedDatabase,
  ) {
    const goods = modes.length === 1 ? 'phone' : `phone-${mode}`;
    this.#sale = { sale, goods, mode, buyers, items, delay };
    database.add(goods, items);
  }

  /** Sends all buyers at once. Resolves when they have their answers or their instance was killed. */
  async run(shops: readonly SimulatedShop[], log: EventLog): Promise<void> {
    const sale = this.#sale;
    const shares = shops.map((_, i) => Math.floor((sale.buyers + i) / shops.length));
    log.add({ type: 'sale-started', ...sale, shares });
    const buyers = shops.flatMap((shop, i) => Array<SimulatedShop>(shares[i]!).fill(shop));
    await Promise.all(
      buyers.map(async (shop) => {
        const answer = await shop.serve(sale);
        if (answer) this.#answers[answer]++;
      }),
    );
    this.#over = true;
    const { stock, orders } = this.database.row(sale.goods);
    log.add({ type: 'sale-ended', sale: sale.sale, tally: this.#tally, stock, orders });
  }

  status(now: number): SaleStatus {
    const { stock, orders, fence } = this.database.row(this.#sale.goods);
    return {
      sale: this.#sale.sale,
      state: this.#over ? 'over' : 'selling',
      tally: this.#tally,
      stock,
      orders,
      fence: fence === 0n ? undefined : String(fence),
      confirmedAt: now,
    };
  }

  get #tally(): Tally {
    const { sold, soldOut, refused } = this.#answers;
    return { ...this.#answers, unanswered: this.#sale.buyers - sold - soldOut - refused };
  }
}
