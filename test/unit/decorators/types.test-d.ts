/*
 * What the types of the decorators accept and reject. Nothing here runs: `npm run typecheck` is the
 * test. An @ts-expect-error without an error fails it.
 */
import { applyDecorators, Get, Injectable, Param } from '@nestjs/common';
import {
  DistributedLock,
  type DistributedLockOptions,
  DistributedSemaphore,
  LeaderOnly,
  type LeaderService,
  type Lease,
  type LockableMethod,
  type LockKey,
  type LockService,
  type MethodDecoratorFor,
  type MultiLease,
  OnElected,
  type SemaphoreService,
  type Term,
} from 'nestjs-zookeeper';
import { CronOnLeader } from 'nestjs-zookeeper/schedule';
import { type Observable, of } from 'rxjs';

/** Forms that no other test uses. */
@Injectable()
export class Accepted {
  @Get(':goodsNo')
  @DistributedLock((goodsNo) => goodsNo.toUpperCase())
  async keyWithInferredArguments(@Param('goodsNo') goodsNo: string, count: number) {
    return goodsNo.repeat(count);
  }

  private readonly prefix = 'goods';

  @DistributedLock(function (goodsNo, count) {
    return [this.prefix, goodsNo.toUpperCase(), count.toFixed()];
  })
  async keyOfInstance(goodsNo: string, count: number) {
    return goodsNo.repeat(count);
  }

  @DistributedLock(function (this: Accepted, goodsNo: string) {
    return this.prefix + goodsNo;
  })
  async keyOfDeclaredInstance(goodsNo: string) {
    return goodsNo;
  }

  @DistributedSemaphore(
    function (goodsNo) {
      return this.prefix + goodsNo;
    },
    { permits: 1 },
  )
  async permitOfInstance(goodsNo: string) {
    return goodsNo;
  }

  @DistributedLock((first, ...others) => `${first.length}${others.length}`)
  async genericMethod<T extends string>(first: T, ...others: number[]): Promise<T> {
    return others.length > 0 ? first : first;
  }

  @DistributedLock((key) => key, { onBusy: (key) => new Error(key.toUpperCase()) })
  async ownError(key: string) {
    return key;
  }

  @DistributedLock((from, to) => [from.toUpperCase(), to], { mode: 'read', holdAtLeast: 5 })
  async keysOfArguments(from: string, to: string) {
    return from + to;
  }

  @DistributedSemaphore((year) => year.toUpperCase(), { permits: 'shared', count: 2, wait: 5 })
  async sharedPermits(year: string) {
    return year;
  }

  @LeaderOnly({
    election: 'job',
    otherwise: async ({ election, args, context, leader }) =>
      `${election.length}${args.length}${context?.getClass().name}${(await leader())?.id}`,
  })
  async routed(goodsNo: string) {
    return goodsNo;
  }

  @LeaderOnly({ election: 'job', otherwise: () => undefined })
  async ignored(): Promise<void> {}

  @LeaderOnly({ election: 'job', otherwise: () => of(1) })
  stream(): Observable<number> {
    return of(2);
  }
}

@Injectable()
export class Refused {
  // @ts-expect-error a synchronous method ends before a lock can be acquired
  @DistributedLock('stock')
  synchronous(): string {
    return '';
  }

  @DistributedLock(function () {
    // @ts-expect-error the class has no such property
    return this.nothing;
  })
  async keyOfMissingProperty(): Promise<void> {}

  // @ts-expect-error another class
  @DistributedLock(function (this: Accepted) {
    return 'stock';
  })
  async keyOfAnotherClass(): Promise<void> {}

  // @ts-expect-error the method has one argument only
  @DistributedLock((goodsNo: string, count: number) => goodsNo + count)
  async tooManyArguments(goodsNo: string): Promise<string> {
    return goodsNo;
  }

  // @ts-expect-error a key must be a string
  @DistributedLock((goodsNo) => goodsNo.length)
  async keyOfAnotherType(goodsNo: string): Promise<string> {
    return goodsNo;
  }

  // @ts-expect-error a misspelt option
  @DistributedLock('stock', { wiat: 5 })
  async unknownOption(): Promise<void> {}

  // @ts-expect-error a call that is skipped resolves to undefined, not to a string
  @DistributedLock('stock', { wait: 0, onBusy: 'skip' })
  async skipped(): Promise<string> {
    return '';
  }

  // @ts-expect-error a key from the context is for handlers, which cannot be skipped
  @DistributedLock({ keyFromContext: () => 'stock', wait: 0, onBusy: 'skip' })
  async skippedHandler(): Promise<void> {}

  // @ts-expect-error an unknown mode
  @DistributedLock('stock', { mode: 'shared' })
  async unknownMode(): Promise<void> {}

  // @ts-expect-error the number of permits is required
  @DistributedSemaphore('reports')
  async noPermits(): Promise<void> {}

  // @ts-expect-error permits must be a number or shared
  @DistributedSemaphore('reports', { permits: 'many' })
  async unknownPermits(): Promise<void> {}

  // @ts-expect-error a semaphore has one key
  @DistributedSemaphore(['a', 'b'], { permits: 1 })
  async permitsOfSeveral(): Promise<void> {}

  // @ts-expect-error a semaphore has no mode
  @DistributedSemaphore('reports', { permits: 1, mode: 'read' })
  async permitsWithMode(): Promise<void> {}

  // @ts-expect-error a call that is skipped resolves to undefined, not to a string
  @DistributedSemaphore('reports', { permits: 1, wait: 0, onBusy: 'skip' })
  async skippedPermit(): Promise<string> {
    return '';
  }

  // @ts-expect-error a synchronous method cannot reject
  @LeaderOnly('job')
  synchronousUnlessLeader(): string {
    return '';
  }

  // @ts-expect-error a synchronous method cannot be skipped
  @LeaderOnly({ election: 'job', otherwise: 'skip' })
  synchronousSkippedUnlessLeader(): void {}

  // @ts-expect-error a call that is skipped resolves to undefined, not to a string
  @LeaderOnly({ election: 'job', otherwise: 'skip' })
  async skippedUnlessLeader(): Promise<string> {
    return '';
  }

  // @ts-expect-error the election is required
  @LeaderOnly({ otherwise: 'throw' })
  async noElection(): Promise<void> {}

  // @ts-expect-error unknown value of otherwise
  @LeaderOnly({ election: 'job', otherwise: 'wait' })
  async unknownOtherwise(): Promise<void> {}

  // @ts-expect-error a misspelt option
  @LeaderOnly({ election: 'job', otherwize: 'skip' })
  async unknownLeaderOption(): Promise<void> {}

  // @ts-expect-error a result of another type than that of the method
  @LeaderOnly({ election: 'job', otherwise: () => 'x' })
  async otherResult(): Promise<number> {
    return 1;
  }

  // @ts-expect-error the argument is a term
  @OnElected('job')
  wrongArgument(x: number): number {
    return x;
  }

  // @ts-expect-error a misspelt option
  @OnElected('job', { conection: 'orders' })
  unknownListenerOption(): void {}

  // @ts-expect-error the decorator cannot be applied to a class
  @DistributedLock('stock')
  static async onTheClass(): Promise<void> {}

  // @ts-expect-error not a method
  @DistributedLock('stock')
  property = 1;
}

// @ts-expect-error a decorator for methods
@DistributedLock('stock')
export class RefusedClass {}

const nightly = DistributedLock('nightly', { wait: 0 });
const timed = (options: Omit<DistributedLockOptions, 'onBusy'>) =>
  DistributedLock('nightly', options);
// @ts-expect-error with 'skip' the method must have another type
export const passing = (options: DistributedLockOptions) => DistributedLock('nightly', options);
const skipping = () => DistributedLock('nightly', { wait: 0, onBusy: 'skip' });
const byId = () => DistributedLock((id: string) => `order:${id}`);
const byContext = () => DistributedLock({ keyFromContext: () => 'stock' });
const limited = () => DistributedSemaphore('reports', { permits: 2 });
const leading = () => LeaderOnly('job');
const leadingOr = () => LeaderOnly({ election: 'job', otherwise: () => undefined });
const skippedElsewhere = () => LeaderOnly({ election: 'job', otherwise: 'skip' });
const nightlyOnLeader = CronOnLeader('0 0 * * *');
const elected = () => OnElected('job');
const onRoute = () =>
  applyDecorators(
    Get(),
    byId(),
    limited(),
    leading(),
    DistributedLock((id: string) => id),
  );

/** Decorators that are stored in variables, shared by methods of several types, and composed. */
@Injectable()
export class Stored {
  @nightly
  @skipping()
  @limited()
  @leading()
  @skippedElsewhere()
  @nightlyOnLeader
  async nothing(): Promise<void> {}

  @nightly
  @byId()
  @limited()
  @leading()
  @leadingOr()
  async withArguments(id: string, count: number): Promise<string> {
    return id.repeat(count);
  }

  @nightly
  @byContext()
  observable(): Observable<number> {
    return of(1);
  }

  @nightly
  async generic<T>(value: T): Promise<T> {
    return value;
  }

  @onRoute()
  async route(@Param('id') id: string): Promise<string> {
    return id;
  }

  @elected()
  onElected({ fencingToken }: Term): bigint {
    return fencingToken;
  }

  @timed({ wait: 5_000 })
  async within(): Promise<string> {
    return '';
  }

  // @ts-expect-error a synchronous method ends before a lock can be acquired
  @nightly
  synchronous(): string {
    return '';
  }

  // @ts-expect-error a call that is skipped resolves to undefined, not to a string
  @skipping()
  async skipped(): Promise<string> {
    return '';
  }

  // @ts-expect-error a call that is skipped resolves to undefined, not to a string
  @skippedElsewhere()
  async skippedUnlessLeader(): Promise<string> {
    return '';
  }

  // @ts-expect-error not a method
  @nightly
  property = 1;
}

/** A decorator of the application that wraps it. */
export const Locked = <M extends LockableMethod>(key: LockKey<M>): MethodDecoratorFor<M> =>
  DistributedLock(key, { wait: 5 });

export async function leaseTypes(
  locks: LockService,
  semaphores: SemaphoreService,
  keys: string | string[],
): Promise<void> {
  const either: Lease | MultiLease = await locks.acquire(keys);
  const constant = await locks.tryAcquire(['a', 'b'] as const, { mode: 'write' });
  await Promise.all([either, ...(constant?.leases ?? [])].map((lease) => lease.release()));
  await locks.withLock<void>('stock', ({ key }) => void key);
  // @ts-expect-error one key gives one lease
  await locks.withLock('stock', ({ leases }) => leases.length);
  // @ts-expect-error an unknown mode
  await locks.acquire('stock', { mode: 'shared' });
  const attempt = await locks.tryAcquire('stock');
  // @ts-expect-error undefined if the lock is held elsewhere
  await attempt.release();
  // @ts-expect-error a misspelt option
  await locks.acquire('stock', { wiat: 5 });
  // @ts-expect-error the number of permits is required
  await semaphores.acquire('reports', { wait: 5 });
  // @ts-expect-error a semaphore has one key
  await semaphores.acquire(['a', 'b'], { permits: 1 });
}

export function leaderTypes(leaders: LeaderService): void {
  // @ts-expect-error undefined if another instance leads
  leaders.term('job').signal.throwIfAborted();
  // @ts-expect-error a latch takes no function
  leaders.latch('job', { autoRequeue: true });
  // @ts-expect-error a selector requires a function
  leaders.select('job');
}
