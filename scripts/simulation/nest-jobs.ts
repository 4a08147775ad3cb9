import { Injectable, type LoggerService, type ModuleMetadata, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LeaseLike, LeaseRecord, RequestedLock } from './history.js';
import { followSession } from './jobs.js';
import { settle, termAsLease } from './recorder.js';
import type { JobContext, Program } from './workload.js';
import { PERMITS } from './setting.js';
import type { Library } from './types.js';

type Lease = import('nestjs-zookeeper').Lease;
type LockService = import('nestjs-zookeeper').LockService;
type LeaderService = import('nestjs-zookeeper').LeaderService;

export const NAMESPACE = '/app';

const SILENT: LoggerService = { log() {}, warn() {}, error() {} };

/** Starts the jobs of a process that runs a Nest application. */
export async function startApplication(context: JobContext): Promise<Program> {
  const { client, jobs, close } = await connectApplication(context);
  return { client, finished: jobs.run(), leaveElections: close, close };
}

/** Starts a Nest application with the shop. */
export async function connectApplication(context: JobContext) {
  const { library } = context;
  const Shop = shopOf(library);
  const { module, client } = await startModule(context, { providers: [Shop] });
  const jobs = new ApplicationJobs(
    context,
    module.get(Shop),
    module.get(library.nest.LockService),
    module.get(library.nest.LeaderService),
  );
  return { client, jobs, close: () => module.close() };
}

/** Starts a Nest application. Retries, because a process may start while no server is available. */
export async function startModule(context: JobContext, metadata: ModuleMetadata) {
  const { library, process, setting, incarnation, acceptsWork } = context;
  const options = {
    connectString: 'simulated:2181',
    namespace: NAMESPACE,
    sessionTimeout: setting.sessionTimeout,
    connectTimeout: setting.sessionTimeout / 4,
    policy: setting.policy,
    participantId: incarnation.name,
    retry: { type: 'fixed', delay: 50, maxRetries: 40 } as const,
  };
  for (;;) {
    const builder = Test.createTestingModule({
      ...metadata,
      imports: [library.nest.ZkModule.forRoot(options), ...(metadata.imports ?? [])],
    });
    const module = await process.override(builder).setLogger(SILENT).compile();
    try {
      await module.init();
    } catch (error) {
      await module.close().catch(() => {});
      if (error instanceof library.nest.ConnectionError && acceptsWork()) continue;
      throw error;
    }
    const client = module.get<import('nestjs-zookeeper').ZkClient>(library.nest.getZkClientToken());
    followSession(client, context);
    return { module, client };
  }
}

/** The code that a decorated method runs while it holds its lease or leads. */
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

export class ApplicationJobs {
  #term: LeaseRecord<LeaseLike> | undefined;

  constructor(
    private readonly context: JobContext,
    private readonly shop: Shop,
    private readonly locks: LockService,
    private readonly leaders: LeaderService,
  ) {}

  async run(): Promise<void> {
    const { random } = this.context;
    await Promise.all([
      this.#loop(() => this.order(random.pick(['1', '2']))),
      this.#loop(() => this.order(random.pick(['1', '2']))),
      this.#loop(() => this.#stock()),
      this.#loop(() => this.#permit()),
      this.#loop(() => this.#permit()),
      this.#loop(() => this.#withLock()),
      this.#loop(() => this.#acquireTwoKeys()),
      this.#loop(() => this.lead()),
    ]);
  }

  async #loop(attempt: () => Promise<void>): Promise<void> {
    const { acceptsWork, random } = this.context;
    while (acceptsWork()) {
      try {
        await attempt();
      } catch (error) {
        this.#checkError(error);
        await sleep(20);
      }
      await sleep(random.between(1, 60));
    }
  }

  order(id: string): Promise<void> {
    const key = `order-${id}`;
    const call = (act: Act) => this.shop.order(id, act);
    return this.#decorated(mutexOf(key), { wait: 2_000, linger: 300 }, call);
  }

  #stock(): Promise<void> {
    return this.#decorated(mutexOf('stock'), { wait: 0 }, (act) => this.shop.stock(act));
  }

  #permit(): Promise<void> {
    const path = `${NAMESPACE}/semaphores/seats`;
    const requested: RequestedLock = {
      key: 'seats',
      path,
      mode: 'permit',
      count: 1,
      permits: PERMITS,
    };
    return this.#decorated(requested, { wait: 3_000 }, (act) => this.shop.permit(act));
  }

  /**
   * Calls a decorated method and records its lease from the first line of the method to its last one. The decorator
   * releases the lease after that.
   */
  async #decorated(
    requested: RequestedLock,
    options: { wait: number; linger?: number },
    call: (act: Act) => Promise<void>,
  ): Promise<void> {
    const { history, library, incarnation } = this.context;
    const request = history.recordRequest(incarnation, requested, options);
    let record: LeaseRecord | undefined;
    try {
      await call(async () => {
        record = history.recordGrant(request, library.nest.currentLease()!);
        await this.#work(record);
        history.recordReleaseStart(record);
      });
    } catch (error) {
      if (!record) history.recordRefusal(request, error);
      throw error;
    } finally {
      if (record) history.recordReleaseEnd(record);
    }
  }

  async #withLock(): Promise<void> {
    const { history, incarnation, random } = this.context;
    const options = {
      wait: random.pick([0, 200, 5_000]),
      mode: random.pick(['read', 'write'] as const),
      linger: random.pick([0, 500]),
    };
    const path = `${NAMESPACE}/locks/pages`;
    const request = history.recordRequest(
      incarnation,
      { key: 'pages', path, mode: options.mode, count: 1 },
      options,
    );
    const act = async (lease: Lease) => {
      const record = history.recordGrant(request, lease);
      await this.#work(record);
      history.recordReleaseStart(record);
      return record;
    };
    const onError = (error: unknown) => {
      if (request.settled === Infinity) history.recordRefusal(request, error);
    };
    history.recordReleaseEnd(await settle(this.locks.withLock('pages', options, act), onError));
  }

  /** Acquires two keys as one lease. */
  async #acquireTwoKeys(): Promise<void> {
    const { history, incarnation } = this.context;
    const options = { wait: 3_000 };
    const requests = ['order-1', 'order-2'].map((key) =>
      history.recordRequest(incarnation, { ...mutexOf(key), partOfMultiLock: true }, options),
    );
    const onError = (error: unknown) => {
      for (const request of requests) history.recordRefusal(request, error);
    };
    const lease = await settle(this.locks.acquire(['order-1', 'order-2'], options), onError);
    const records = requests.map((request) => history.recordGrant(request, lease));
    await this.#work(records[0]!, records.slice(1));
    for (const record of records) history.recordReleaseStart(record);
    await lease.release();
    for (const record of records) history.recordReleaseEnd(record);
  }

  /** Calls a method for leaders. Each term has one record, also if the method runs several times in it. */
  async lead(): Promise<void> {
    const { history, incarnation, random, library } = this.context;
    const requested: RequestedLock = {
      key: 'close-orders',
      path: undefined,
      mode: 'lead',
      count: 1,
    };
    await this.shop.closeOrders(async () => {
      const term = library.nest.currentTerm()!;
      if (!term.active) {
        const why = `${incarnation.name} ran a method for leaders after the end of its term`;
        history.recordViolation('a method for leaders runs during a term', why);
      }
      if (this.#term?.token !== term.fencingToken) {
        this.#term = history.recordGrant(
          history.recordRequest(incarnation, requested),
          termAsLease(term),
        );
      }
      await this.#work(this.#term);
    });
    if (random.chance(0.05)) await this.leaders.resign('close-orders');
  }

  async #work(record: LeaseRecord, others: readonly LeaseRecord[] = []): Promise<void> {
    const { history, random, world } = this.context;
    const until = world.now + random.between(0, 40);
    do {
      if (![record, ...others].every((each) => history.recordWork(each))) return;
      await sleep(7);
    } while (world.now < until);
  }

  #checkError(error: unknown): void {
    const { history, library, incarnation } = this.context;
    if (error instanceof library.nest.CoordinationError) return;
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    history.recordViolation('errors are of the documented classes', `${incarnation.name}: ${why}`);
  }
}

function mutexOf(key: string): RequestedLock {
  return { key, path: `${NAMESPACE}/locks/${key}`, mode: 'exclusive', count: 1 };
}
