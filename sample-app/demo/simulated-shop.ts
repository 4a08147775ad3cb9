import { setTimeout as delay } from 'node:timers/promises';
import { LeaderLatch, Mutex, type ZkClient } from 'nestjs-zookeeper/recipes';
import type { SimulatedProcess, World } from 'nestjs-zookeeper/testing';
import type { Fault, InstanceStatus, LockMode, SaleSettings } from '../live/events.js';
import type { EventLog } from './event-log.js';
import type { SimulatedDatabase } from './simulated-database.js';

/** Milliseconds. A dead instance keeps its locks and the leadership for this time. */
export const SESSION_TIMEOUT = 2_000;

/** The options of an acquire in each mode, as those of `GoodsStockController`. */
const ACQUIRE_OPTIONS = {
  lock: {},
  lingering: { linger: 500 },
  strict: { fairness: 'strict' },
} as const;

export type Answer = 'sold' | 'soldOut' | 'refused';

export interface SimulatedSale extends SaleSettings {
  readonly sale: number;
  readonly goods: string;
  readonly mode: LockMode;
}

/** What all shops use. */
export interface Surroundings {
  readonly world: World;
  readonly log: EventLog;
  readonly database: SimulatedDatabase;
  /** The shop that each lock was granted to, until it releases the lock or notices that it has lost it. */
  readonly holders: Map<string, SimulatedShop>;
}

/** One instance of the shop. After a kill it can start again, in another process. */
export class SimulatedShop {
  readonly #faults = new Set<Fault>();
  #leads = false;
  #process!: SimulatedProcess;
  #client!: ZkClient;
  #connection: Pick<InstanceStatus, 'connection' | 'session'> = {};
  #starts = 0;
  #purchases = 0;
  /** When the fault began that separates it from the ensemble. */
  #separatedAt: number | undefined;

  constructor(
    readonly number: number,
    private readonly surroundings: Surroundings,
  ) {}

  async start(): Promise<void> {
    const { world, log } = this.surroundings;
    const { number } = this;
    const process = world.process(`shop ${number}`);
    this.#process = process;
    this.#starts++;
    this.#separatedAt = undefined;
    log.add({ type: 'started', instance: number, pid: this.#pid });
    const client = await process.client({ sessionTimeout: SESSION_TIMEOUT });
    this.#client = client;
    await process.run(async () => {
      const changed = () => {
        const { state, sessionId: session } = client;
        this.#connection = { connection: state, session };
        log.add({ type: 'connection', instance: number, state, session });
      };
      changed();
      client.onState(changed);
      const latch = new LeaderLatch(client, '/elections/close-unpaid');
      latch.onChange((term) => {
        this.#leads = term !== undefined;
        if (term) log.add({ type: 'leader', instance: number });
      });
      await latch.start();
    });
  }

  get alive(): boolean {
    return !this.#process.crashed;
  }

  /** Whether it holds a lock. */
  get holds(): boolean {
    return [...this.surroundings.holders.values()].includes(this);
  }

  /** Whether it runs and is connected to the ensemble. */
  get healthy(): boolean {
    return this.#separatedAt === undefined;
  }

  /** Serves one buyer. Resolves to undefined if the process is killed before it answers. */
  async serve(sale: SimulatedSale): Promise<Answer | undefined> {
    const process = this.#process;
    const purchase = `${this.number}.${++this.#purchases}`;
    try {
      return await process.run(() =>
        sale.mode === 'none'
          ? this.#purchase(sale, purchase)
          : this.#purchaseLocked(sale, sale.mode, purchase),
      );
    } catch (error) {
      if (process.crashed) return undefined;
      throw error;
    }
  }

  /** Begins a fault. Returns the function that ends it. */
  inject(fault: Fault): () => Promise<void> | void {
    const { world, log } = this.surroundings;
    const { number } = this;
    const process = this.#process;
    log.add({ type: 'fault', instance: number, fault });
    if (fault === 'expire') {
      world.expireSession(this.#client);
      return () => {};
    }
    this.#separatedAt = world.now;
    if (fault === 'kill') {
      process.crash();
      this.#leads = false;
      this.#connection = {};
      log.add({ type: 'died', instance: number });
      return () => this.start();
    }
    this.#faults.add(fault);
    const heal = fault === 'cut' ? process.link.cut() : undefined;
    if (fault === 'pause') process.pause();
    return () => {
      this.#faults.delete(fault);
      this.#separatedAt = undefined;
      log.add({ type: 'fault-ended', instance: number, fault });
      if (heal) heal();
      else process.resume();
    };
  }

  status(): InstanceStatus {
    const { number, alive } = this;
    const holds = this.holds;
    const separatedAt = this.#separatedAt;
    return {
      number,
      pid: this.#pid,
      life: alive ? 'alive' : 'dead',
      faults: [...this.#faults],
      ...this.#connection,
      confirmedAt: separatedAt ?? this.surroundings.log.now,
      leads: this.#leads,
      holds,
      movesOnAt: holds && separatedAt !== undefined ? separatedAt + SESSION_TIMEOUT : undefined,
    };
  }

  get #pid(): number {
    return this.number * 100 + this.#starts;
  }

  async #purchaseLocked(
    sale: SimulatedSale,
    mode: keyof typeof ACQUIRE_OPTIONS,
    purchase: string,
  ): Promise<Answer> {
    const { log, holders } = this.surroundings;
    const { goods: key } = sale;
    const event = { instance: this.number, sale: sale.sale, lease: purchase };
    log.add({ type: 'requested', key, ...event });
    let granted = false;
    const sell = async ({
      fencingToken,
      signal,
    }: {
      fencingToken: bigint;
      signal: AbortSignal;
    }) => {
      granted = true;
      holders.set(key, this);
      log.add({ type: 'granted', token: String(fencingToken), ...event });
      const ended = (type: 'released' | 'lost') => {
        if (holders.get(key) === this) holders.delete(key);
        log.add({ type, ...event });
      };
      const onLost = () => ended('lost');
      signal.addEventListener('abort', onLost, { once: true });
      try {
        return await this.#purchase(sale, purchase, fencingToken);
      } finally {
        signal.removeEventListener('abort', onLost);
        if (!signal.aborted) ended('released');
      }
    };
    try {
      const mutex = new Mutex(this.#client, `/locks/${key}`, { key });
      return await mutex.withLock(sell, ACQUIRE_OPTIONS[mode]);
    } catch (error) {
      if (granted) throw error;
      log.add({ type: 'not-granted', reason: (error as Error).name, ...event });
      return 'refused';
    }
  }

  async #purchase(
    { sale, goods, delay: [from, to] }: SimulatedSale,
    purchase: string,
    fencingToken?: bigint,
  ): Promise<Answer> {
    const { world, log, database } = this.surroundings;
    const event = { instance: this.number, sale, purchase };
    const token = fencingToken?.toString();
    const refused = () => {
      log.add({ type: 'write-refused', token: token!, ...event });
      return 'refused' as const;
    };
    const stock = await database.read(goods, fencingToken);
    if (stock === undefined) return refused();
    log.add({ type: 'stock-read', stock, token, ...event });
    if (stock === 0) return 'soldOut';
    await delay(world.random.whole(from, to));
    if (!(await database.sell(goods, stock - 1, fencingToken))) return refused();
    log.add({ type: 'stock-written', stock: stock - 1, token, ...event });
    return 'sold';
  }
}
