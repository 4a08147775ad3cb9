import { simulate, type World } from 'nestjs-zookeeper/testing';
import type { LockMode, SaleSettings, SaleStatus, Status, Tally } from '../live/events.js';
import { EventLog } from './event-log.js';
import { type PlannedFault, planFaults } from './fault-plan.js';
import type { Recording } from './recording.js';
import { SimulatedDatabase } from './simulated-database.js';
import {
  FAULT_DURATION,
  type InstanceAction,
  SESSION_TIMEOUT,
  type SimulatedSale,
  SimulatedShop,
} from './simulated-shop.js';
import { SimulatedZookeeper } from './simulated-zookeeper.js';

const INSTANCES = 3;

/** Milliseconds between two checks for actions of the visitor. */
const TICK = 50;
/** Number of ticks between two states. */
const STATUS_TICKS = 4;
/** Milliseconds for which a run continues after the last action of the visitor, so that the page shows its effects. */
const SETTLE_TIME = FAULT_DURATION + 2.5 * SESSION_TIMEOUT;
/** Milliseconds after which the buyers give up. */
const PATIENCE = 60_000;

/** What ends each fault. A session expires at once, and the client connects with a new one. */
const ENDS = { pause: 'resume', cut: 'heal', kill: 'revive', expire: undefined } as const;

/** An action of the visitor or of a story. It is executed at the next tick. */
export interface TimedAction {
  readonly at: number;
  /**
   * `zookeeper` stands for all servers; only `pause` and `resume` apply to it. `holder` is the instance that holds the lock at
   * the first action with `holder`. That action waits for a holder, and later ones apply to the same instance.
   */
  readonly instance: number | 'holder' | 'zookeeper';
  readonly action: InstanceAction;
}

export interface RunSettings extends SaleSettings {
  readonly seed: number;
  /** One sale for each mode. All sales start at the same time. */
  readonly modes: readonly LockMode[];
  /** Whether the seed decides faults too. */
  readonly faults: boolean;
  /** In the order of their times. An action does not change the events before it. */
  readonly actions: readonly TimedAction[];
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
  const context = { world, log, database, holders: new Map() };
  const zookeeper = new SimulatedZookeeper(world, log);
  const shops = Array.from({ length: INSTANCES }, (_, i) => new SimulatedShop(i + 1, context));
  await Promise.all(shops.map((shop) => shop.start()));

  const sales = settings.modes.map((mode, i) => new SaleRun(i + 1, mode, settings, database));
  const statuses: Status[] = [];
  const takeStatus = () => {
    const { now } = log;
    statuses.push({
      at: now,
      ensemble: zookeeper.status(),
      instances: shops.map((shop) => shop.status(zookeeper.status())),
      sales: sales.filter(({ started }) => started).map((sale) => sale.status(now)),
    });
  };
  let over = false;
  const watch = async () => {
    const actions = [...settings.actions];
    let holder: SimulatedShop | undefined;
    for (let tick = 0; !over; tick++) {
      if (tick % STATUS_TICKS === 0) takeStatus();
      while (actions[0] && actions[0].at <= log.now) {
        const { instance, action } = actions[0];
        if (instance === 'holder') holder ??= shops.find(({ holds }) => holds);
        if (instance === 'zookeeper') zookeeper.act(action as 'pause' | 'resume');
        else {
          const shop = instance === 'holder' ? holder : shops[instance - 1];
          if (!shop) break;
          shop.act(action);
        }
        actions.shift();
      }
      await world.sleep(TICK);
    }
  };
  const watching = watch();
  const faults = settings.faults ? injectFaults(world, shops) : undefined;
  const selling = Promise.all(sales.map((sale) => sale.sell(shops, log)));
  await Promise.race([selling, world.sleep(PATIENCE)]);
  for (const sale of sales) sale.end(log);
  await faults;
  const lastAction = settings.actions.at(-1)?.at ?? -Infinity;
  await world.sleep(Math.max(0, lastAction + SETTLE_TIME - world.now));
  over = true;
  await watching;
  takeStatus();
  return { events: log.events, statuses };
}

/** Each fault of the seed hits a holder of a lock if possible. */
async function injectFaults(world: World, shops: readonly SimulatedShop[]): Promise<void> {
  const inject = async ({ fault, at, duration }: PlannedFault) => {
    await world.sleep(at);
    const healthy = shops.filter((shop) => shop.healthy);
    if (healthy.length === 0) return;
    const shop = healthy.find(({ holds }) => holds) ?? world.random.pick(healthy);
    shop.act(fault);
    await world.sleep(duration);
    const end = ENDS[fault];
    if (end) shop.act(end);
  };
  await Promise.all(planFaults(world.random).map(inject));
}

/** One sale and the answers of its buyers. */
class SaleRun {
  readonly #sale: SimulatedSale;
  readonly #answers = { sold: 0, soldOut: 0, refused: 0 };
  started = false;
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
  async sell(shops: readonly SimulatedShop[], log: EventLog): Promise<void> {
    this.started = true;
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
    this.end(log);
  }

  /** Ends the sale, if it has not ended. */
  end(log: EventLog): void {
    if (this.#over) return;
    this.#over = true;
    const { sale, goods } = this.#sale;
    const { stock, orders } = this.database.row(goods);
    log.add({ type: 'sale-ended', sale, tally: this.#tally, stock, orders });
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
