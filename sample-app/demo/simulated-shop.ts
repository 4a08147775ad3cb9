import { setTimeout as delay } from 'node:timers/promises';
import { LeaderLatch, type Lease, Mutex, type ZkClient } from 'nestjs-zookeeper/recipes';
import type { SimulatedProcess, World } from 'nestjs-zookeeper/testing';
import type {
  EnsembleStatus,
  Fault,
  InstanceStatus,
  LockMode,
  SaleSettings,
} from '../live/events.js';
import { reasonOf } from '../seckill/not-granted.js';
import type { EventLog } from './event-log.js';
import type { SimulatedDatabase } from './simulated-database.js';

/** Milliseconds. A dead instance keeps its locks and the leadership for this time. */
export const SESSION_TIMEOUT = 2_000;
/** The servers expire sessions at whole ticks: milliseconds by which they may be late. */
const TICK_TIME = 500;

/** Milliseconds after which a pause and a cut end, as on the server of the page. */
export const FAULT_DURATION = 9_000;

/** The options of an acquire in each mode, as those of `GoodsStockController`. */
const ACQUIRE_OPTIONS = {
  lock: {},
  lingering: { linger: 500 },
  strict: { fairness: 'strict' },
} as const;

/** Begins a fault, or ends it. */
export type InstanceAction = Fault | 'resume' | 'heal' | 'revive';

export type Answer = 'sold' | 'soldOut' | 'refused';

export interface SimulatedSale extends SaleSettings {
  readonly sale: number;
  readonly goods: string;
  readonly mode: LockMode;
}

/** What all shops use. */
export interface SimulationContext {
  readonly world: World;
  readonly log: EventLog;
  readonly database: SimulatedDatabase;
  /** The shop that each lock was granted to, until it releases the lock or notices that it has lost it. */
  readonly holders: Map<string, SimulatedShop>;
}

/** One instance of the shop. After a kill it can start again, in another process. */
export class SimulatedShop {
  /** The active faults, each with an identity. */
  readonly #faults = new Map<Fault, symbol>();
  #leads = false;
  #process!: SimulatedProcess;
  #client!: ZkClient;
  #connection: Pick<InstanceStatus, 'connection' | 'session'> = {};
  #heal: () => void = () => {};
  #starts = 0;
  #purchases = 0;
  /** When the fault began that separates it from the ensemble. */
  #separatedAt: number | undefined;

  constructor(
    readonly number: number,
    private readonly context: SimulationContext,
  ) {}

  /** Starts the process. Resolves when it is connected, or was killed before that. */
  async start(): Promise<void> {
    const { world } = this.context;
    const process = world.process(`shop ${this.number}`);
    try {
      await this.#connect(process);
    } catch (error) {
      if (!process.crashed) throw error;
    }
  }

  async #connect(process: SimulatedProcess): Promise<void> {
    const { log } = this.context;
    const { number } = this;
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
    return [...this.context.holders.values()].includes(this);
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

  /** Begins or ends a fault. Does nothing if the fault cannot begin or end now. */
  act(action: InstanceAction): void {
    const { world } = this.context;
    if (action === 'revive') {
      if (!this.alive) void this.start();
    } else if (!this.alive) {
      return;
    } else if (action === 'expire') {
      const { session } = this.#connection;
      if (!session || !world.sessionIds.includes(session)) return;
      this.#logFault('fault', 'expire');
      world.expireSession(session);
    } else if (action === 'kill') {
      this.#faults.clear();
      this.#logFault('fault', 'kill');
      this.#process.crash();
      this.#leads = false;
      this.#connection = {};
      this.context.log.add({ type: 'died', instance: this.number });
    } else if (action === 'pause' || action === 'cut') {
      if (this.#faults.has(action)) return;
      const begun = Symbol(action);
      this.#faults.set(action, begun);
      void world.sleep(FAULT_DURATION).then(() => {
        if (this.#faults.get(action) === begun) this.act(action === 'cut' ? 'heal' : 'resume');
      });
      this.#logFault('fault', action);
      if (action === 'cut') this.#heal = this.#process.link.cut();
      else this.#process.pause();
    } else {
      const fault = action === 'heal' ? 'cut' : 'pause';
      if (!this.#faults.delete(fault)) return;
      this.#logFault('fault-ended', fault);
      if (fault === 'cut') this.#heal();
      else this.#process.resume();
    }
    const isSeparated = !this.alive || this.#faults.size > 0;
    this.#separatedAt = isSeparated ? (this.#separatedAt ?? this.context.log.now) : undefined;
  }

  status({ confirmedAt, isPaused }: EnsembleStatus & { confirmedAt: number }): InstanceStatus {
    const { number, alive } = this;
    const { now } = this.context.log;
    const separatedAt = this.#separatedAt;
    const movesOnAt = separatedAt === undefined ? Infinity : separatedAt + SESSION_TIMEOUT;
    const holds = this.holds && now <= movesOnAt + TICK_TIME;
    return {
      number,
      pid: this.#pid,
      life: alive ? 'alive' : 'dead',
      faults: [...this.#faults.keys()],
      ...this.#connection,
      confirmedAt: Math.min(separatedAt ?? now, confirmedAt),
      leads: this.#leads,
      holds,
      // Servers that are paused expire no session.
      movesOnAt: holds && separatedAt !== undefined && !isPaused ? movesOnAt : undefined,
    };
  }

  #logFault(type: 'fault' | 'fault-ended', fault: Fault): void {
    this.context.log.add({ type, instance: this.number, fault });
  }

  get #pid(): number {
    return this.number * 100 + this.#starts;
  }

  async #purchaseLocked(
    sale: SimulatedSale,
    mode: keyof typeof ACQUIRE_OPTIONS,
    purchase: string,
  ): Promise<Answer> {
    const { log, holders } = this.context;
    const { goods: key } = sale;
    const event = { instance: this.number, sale: sale.sale, lease: purchase };
    log.add({ type: 'requested', key, ...event });
    let granted = false;
    const sell = async ({ fencingToken, signal }: Lease) => {
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
      log.add({ type: 'not-granted', reason: reasonOf(error), ...event });
      return 'refused';
    }
  }

  async #purchase(
    { sale, goods, delay: [from, to] }: SimulatedSale,
    purchase: string,
    fencingToken?: bigint,
  ): Promise<Answer> {
    const { world, log, database } = this.context;
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
