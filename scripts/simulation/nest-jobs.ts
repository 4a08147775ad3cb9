import { Injectable, type LoggerService, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Holding, LeaseRecord, Wanted } from './history.js';
import { followSession, holdingOf, settle } from './jobs.js';
import type { Context, Program } from './members.js';
import { PERMITS } from './setting.js';
import type { Library } from './types.js';

type Lease = import('nestjs-zookeeper').Lease;
type LockService = import('nestjs-zookeeper').LockService;
type LeaderService = import('nestjs-zookeeper').LeaderService;

const NAMESPACE = '/app';

const SILENT: LoggerService = { log() {}, warn() {}, error() {} };

/** Resolves to a program whose locks and elections are those of a Nest application. */
export async function startApplication(context: Context): Promise<Program> {
  const { library, process, setting, life, working } = context;
  const Shop = shopOf(library);
  const options = {
    connectString: 'simulated:2181',
    namespace: NAMESPACE,
    sessionTimeout: setting.sessionTimeout,
    connectTimeout: setting.sessionTimeout / 4,
    policy: setting.policy,
    participantId: life.name,
    retry: { type: 'fixed', delay: 50, maxAttempts: 40 } as const,
  };
  for (;;) {
    const builder = Test.createTestingModule({
      imports: [library.nest.ZkModule.forRoot(options)],
      providers: [Shop],
    });
    const module = await process.override(builder).setLogger(SILENT).compile();
    try {
      await module.init();
    } catch (error) {
      await module.close().catch(() => {});
      if (error instanceof library.nest.ConnectionError && working()) continue;
      throw error;
    }
    const client = module.get<import('nestjs-zookeeper').ZkClient>(library.nest.getZkClientToken());
    followSession(client, context);
    const jobs = new ApplicationJobs(
      context,
      module.get(Shop),
      module.get(library.nest.LockService),
      module.get(library.nest.LeaderService),
    );
    const finished = jobs.run();
    const leave = () => module.close();
    return { client, finished, leave, close: leave };
  }
}

/** What a decorated method runs while it holds its lease or leads. */
type Act = () => Promise<void>;

interface Shop {
  order(id: string, act: Act): Promise<void>;
  stock(act: Act): Promise<void>;
  permit(act: Act): Promise<void>;
  closeOrders(act: Act): Promise<void>;
}

const shops = new WeakMap<Library, Type<Shop>>();

function shopOf(library: Library): Type<Shop> {
  let shop = shops.get(library);
  if (!shop) shops.set(library, (shop = defineShop(library)));
  return shop;
}

function defineShop({ nest }: Library): Type<Shop> {
  const { DistributedLock, DistributedSemaphore, LeaderOnly } = nest;

  @Injectable()
  class DecoratedShop implements Shop {
    @DistributedLock((id: string) => `order-${id}`, { wait: 2_000, linger: 300 })
    async order(_id: string, act: Act): Promise<void> {
      await act();
    }

    @DistributedLock('stock', { wait: 0, onLost: 'ignore' })
    async stock(act: Act): Promise<void> {
      await act();
    }

    @DistributedSemaphore('seats', { permits: PERMITS, wait: 3_000 })
    async permit(act: Act): Promise<void> {
      await act();
    }

    @LeaderOnly('close-orders')
    async closeOrders(act: Act): Promise<void> {
      await act();
    }
  }
  return DecoratedShop;
}

class ApplicationJobs {
  #term: LeaseRecord<Holding> | undefined;

  constructor(
    private readonly context: Context,
    private readonly shop: Shop,
    private readonly locks: LockService,
    private readonly leaders: LeaderService,
  ) {}

  async run(): Promise<void> {
    const { random } = this.context;
    await Promise.all([
      this.#loop(() => this.#order(random.pick(['1', '2']))),
      this.#loop(() => this.#order(random.pick(['1', '2']))),
      this.#loop(() => this.#stock()),
      this.#loop(() => this.#permit()),
      this.#loop(() => this.#permit()),
      this.#loop(() => this.#withLock()),
      this.#loop(() => this.#keys()),
      this.#loop(() => this.#lead()),
    ]);
  }

  async #loop(attempt: () => Promise<void>): Promise<void> {
    const { working, random } = this.context;
    while (working()) {
      try {
        await attempt();
      } catch (error) {
        this.#expected(error);
        await sleep(20);
      }
      await sleep(random.between(1, 60));
    }
  }

  #order(id: string): Promise<void> {
    const key = `order-${id}`;
    const call = (act: Act) => this.shop.order(id, act);
    return this.#decorated(lock(key), { wait: 2_000, linger: 300 }, call);
  }

  #stock(): Promise<void> {
    return this.#decorated(lock('stock'), { wait: 0 }, (act) => this.shop.stock(act));
  }

  #permit(): Promise<void> {
    const path = `${NAMESPACE}/semaphores/seats`;
    const wanted: Wanted = { key: 'seats', path, mode: 'permit', count: 1, permits: PERMITS };
    return this.#decorated(wanted, { wait: 3_000 }, (act) => this.shop.permit(act));
  }

  /** The lease counts from the method's first line to its last: the decorator releases after that. */
  async #decorated(
    wanted: Wanted,
    options: { wait: number; linger?: number },
    call: (act: Act) => Promise<void>,
  ): Promise<void> {
    const { history, library, life } = this.context;
    const request = history.ask(life, wanted, options);
    let record: LeaseRecord | undefined;
    try {
      await call(async () => {
        record = history.granted(request, library.nest.currentLease()!);
        await this.#work(record);
        history.releasing(record);
      });
    } catch (error) {
      if (!record) history.refused(request, error);
      throw error;
    } finally {
      if (record) history.released(record);
    }
  }

  async #withLock(): Promise<void> {
    const { history, life, random } = this.context;
    const options = {
      wait: random.pick([0, 200, 5_000]),
      mode: random.pick(['read', 'write'] as const),
      linger: random.pick([0, 500]),
    };
    const path = `${NAMESPACE}/locks/pages`;
    const request = history.ask(
      life,
      { key: 'pages', path, mode: options.mode, count: 1 },
      options,
    );
    const act = async (lease: Lease) => {
      const record = history.granted(request, lease);
      await this.#work(record);
      history.releasing(record);
      return record;
    };
    const refused = (error: unknown) => {
      if (request.settled === Infinity) history.refused(request, error);
    };
    history.released(await settle(this.locks.withLock('pages', options, act), refused));
  }

  /** Several keys as one. */
  async #keys(): Promise<void> {
    const { history, life } = this.context;
    const options = { wait: 3_000 };
    const requests = ['order-1', 'order-2'].map((key) =>
      history.ask(life, { ...lock(key), partial: true }, options),
    );
    const refused = (error: unknown) => {
      for (const request of requests) history.refused(request, error);
    };
    const all = await settle(this.locks.acquire(['order-1', 'order-2'], options), refused);
    const records = requests.map((request, index) =>
      history.granted(request, all.leases[index]!, all.fencingToken),
    );
    await this.#work(records[0]!, records.slice(1));
    for (const record of records) history.releasing(record);
    await all.release();
    for (const record of records) history.released(record);
  }

  /** One record for each term, however often the method runs in it. */
  async #lead(): Promise<void> {
    const { history, life, random, library } = this.context;
    const wanted: Wanted = { key: 'close-orders', path: undefined, mode: 'lead', count: 1 };
    await this.shop.closeOrders(async () => {
      const term = library.nest.currentTerm()!;
      if (!term.active) {
        const why = `${life.name} ran a method for leaders after its term`;
        history.violation('a method for leaders runs in a term', why);
      }
      if (this.#term?.token !== term.fencingToken) {
        this.#term = history.granted(history.ask(life, wanted), holdingOf(term));
      }
      await this.#work(this.#term);
    });
    if (random.chance(0.05)) await this.leaders.resign('close-orders');
  }

  async #work(record: LeaseRecord, others: readonly LeaseRecord[] = []): Promise<void> {
    const { history, random, world } = this.context;
    const until = world.now + random.between(0, 40);
    do {
      if (![record, ...others].every((each) => history.works(each))) return;
      await sleep(7);
    } while (world.now < until);
  }

  #expected(error: unknown): void {
    const { history, library, life } = this.context;
    if (error instanceof library.nest.CoordinationError) return;
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    history.violation('errors are of the documented classes', `${life.name}: ${why}`);
  }
}

function lock(key: string): Wanted {
  return { key, path: `${NAMESPACE}/locks/${key}`, mode: 'exclusive', count: 1 };
}
