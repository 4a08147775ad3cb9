import 'reflect-metadata';
import type { InjectionToken, Provider } from '@nestjs/common';
import type { TransactionOperation } from '../client/index.js';
import {
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
} from '../services/tokens.js';
import {
  FakeEnsemble,
  FakeLeaderService,
  FakeLockService,
  FakeSemaphoreService,
} from './fake-services.js';

/** The metadata of Nest's `Inject` on properties of a class. */
const INJECTED_PROPERTIES = 'self:properties_metadata';

/**
 * A LockService, a SemaphoreService and a LeaderService without a server, for unit tests of the services that use them,
 * also by decorated methods. Every lock is granted at once, also to several callers, and this process leads every
 * election, until a test says otherwise by {@link busy} or {@link lose}. Calls do not exclude each other: to test that
 * they do, use {@link TestZooKeeper}.
 *
 * ```ts
 * const locks = new FakeLocks();
 * const module = await Test.createTestingModule({
 *   providers: [OrdersService, ...locks.providers],
 * }).compile();
 * locks.busy('orders');
 * ```
 *
 * A key is that of a lock or a semaphore, or the name of an election.
 *
 * @publicApi
 */
export class FakeLocks {
  /** The providers of the three services. */
  readonly providers: Provider[];
  private readonly ensemble = new FakeEnsemble();
  private readonly services: ReadonlyMap<unknown, object>;

  /** @param connection the `name` of the ZkModule connection that the services stand for */
  constructor(connection?: string) {
    const services = new Map<InjectionToken, object>([
      [getLockServiceToken(connection), new FakeLockService(this.ensemble)],
      [getSemaphoreServiceToken(connection), new FakeSemaphoreService(this.ensemble)],
      [getLeaderServiceToken(connection), new FakeLeaderService(this.ensemble)],
    ]);
    this.services = services;
    this.providers = [...services].map(([provide, useValue]) => ({ provide, useValue }));
  }

  /** Returns the service of a token, for `useMocker` and `overrideProvider`; undefined for any other token. */
  get<T extends object = object>(token?: InjectionToken<T>): T | undefined {
    return this.services.get(token) as T | undefined;
  }

  /** Injects the services into an instance that the test created with `new`, as Nest would. Returns the instance. */
  inject<T extends object>(instance: T): T {
    const properties = (Reflect.getMetadata(INJECTED_PROPERTIES, instance.constructor) ?? []) as {
      key: PropertyKey;
      type: unknown;
    }[];
    for (const { key, type } of properties) {
      const service = this.services.get(type);
      if (service) Reflect.set(instance, key, service);
    }
    return instance;
  }

  /**
   * From now on another process holds the key, or leads the election: a call that does not wait, or for a limited time,
   * is refused at once, and a call that waits without a limit waits until {@link free}. This process keeps the leases
   * that it holds, and loses the leadership of the election.
   */
  busy(key: string): void {
    this.ensemble.busy(key);
  }

  /** Ends {@link busy}. Calls that wait get the lock, and a candidate leads. */
  free(key: string): void {
    this.ensemble.free(key);
  }

  /**
   * The operations of each `Lease.transaction` and `Term.transaction` so far, in the order of the calls. There
   * are no znodes: all transactions succeed while the lease is held, sequential names have no number, and each set has the
   * version 1.
   */
  get transactions(): readonly (readonly TransactionOperation[])[] {
    return this.ensemble.transactions;
  }

  /** Ends all leases of the key, or the term of the election, as if the session had expired. The key is {@link busy} then. */
  lose(key: string): void {
    this.ensemble.lose(key);
  }
}
