/*
 * What the types of the decorators accept and reject. Nothing here runs: `npm run typecheck` is the
 * test. An @ts-expect-error without an error fails it.
 */
import { applyDecorators, type ExecutionContext, Get, Injectable, Param } from '@nestjs/common';
import {
  DistributedLock,
  DistributedSemaphore,
  LeaderOnly,
  type LeaderService,
  type Lease,
  type LockableMethod,
  type LockDecorator,
  type LockKey,
  type LockService,
  type MultiLease,
  OnElected,
  OnResigned,
  type SemaphoreService,
  type Term,
} from 'nestjs-zookeeper';
import { type Observable, of } from 'rxjs';

@Injectable()
export class Accepted {
  @DistributedLock('stock')
  async fixedKey(goodsNo: string): Promise<string> {
    return goodsNo;
  }

  @Get(':goodsNo')
  @DistributedLock((goodsNo) => goodsNo.toUpperCase())
  async keyWithInferredArguments(@Param('goodsNo') goodsNo: string, count: number) {
    return goodsNo.repeat(count);
  }

  @DistributedLock((goodsNo: string, count: number) => goodsNo + count.toFixed())
  async keyWithDeclaredArguments(goodsNo: string, count: number) {
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

  @DistributedLock({ keyFromContext: (context: ExecutionContext) => context.getClass().name })
  async keyFromContext(): Promise<void> {}

  @DistributedLock('stream', { wait: 0, onLost: 'ignore', connection: 'orders', reentrant: false })
  observable(): Observable<number> {
    return of(1);
  }

  @DistributedLock((key) => key, { onBusy: (key) => new Error(key.toUpperCase()) })
  async ownError(key: string) {
    return key;
  }

  @DistributedLock('job', { wait: 0, onBusy: 'skip' })
  async skippedJob(): Promise<void> {}

  @DistributedLock('job', { wait: 0, onBusy: 'skip' })
  async skippedWithUndefined(): Promise<number | undefined> {
    return 1;
  }

  @DistributedLock('job', { wait: 0, onBusy: 'skip' })
  skippedStream(): Observable<number> {
    return of(1);
  }

  @DistributedLock(['from', 'to'], { mode: 'write', holdAtMost: 5_000, details: { text: 'move' } })
  async fixedKeys(): Promise<void> {}

  @DistributedLock((from, to) => [from.toUpperCase(), to], { mode: 'read', holdAtLeast: 5 })
  async keysOfArguments(from: string, to: string) {
    return from + to;
  }

  @DistributedLock((from: string, to: string) => [from, to] as const, {
    onRevoke: (lease) => void lease.release(),
  })
  async constantKeys(from: string, to: string) {
    return from + to;
  }

  @DistributedLock({ keyFromContext: ({ getClass }) => [getClass().name] })
  async keysFromContext(): Promise<void> {}

  @DistributedSemaphore('reports', { permits: 3 })
  async permits(): Promise<void> {}

  @DistributedSemaphore((year) => year.toUpperCase(), { permits: 'shared', count: 2, wait: 5 })
  async sharedPermits(year: string) {
    return year;
  }

  @DistributedSemaphore({ keyFromContext: ({ getClass }) => getClass().name, permits: 1 })
  permitsOfStream(): Observable<number> {
    return of(1);
  }

  @DistributedSemaphore('reports', { permits: 1, wait: 0, onBusy: 'skip' })
  async skippedWithoutPermit(): Promise<void> {}

  @LeaderOnly('job')
  async leaderOnly(): Promise<void> {}

  @LeaderOnly('job')
  async leaderOnlyWithArguments(goodsNo: string, count: number) {
    return goodsNo.repeat(count);
  }

  @LeaderOnly({ election: 'job', otherwise: 'throw', onLost: 'ignore', connection: 'orders' })
  leaderOnlyStream(): Observable<number> {
    return of(1);
  }

  @LeaderOnly({ election: 'job', otherwise: 'skip' })
  async skippedUnlessLeader(): Promise<number | undefined> {
    return 1;
  }

  @LeaderOnly({ election: 'job', otherwise: 'skip' })
  skippedStreamUnlessLeader(): Observable<number> {
    return of(1);
  }

  @LeaderOnly({
    election: 'job',
    otherwise: async ({ election, args, context, leader }) =>
      `${election.length}${args.length}${context?.getClass().name}${(await leader())?.id}`,
  })
  async routed(goodsNo: string) {
    return goodsNo;
  }

  @OnElected('job')
  @OnResigned('job', { connection: 'orders' })
  listener(term: Term): void {
    term.signal.throwIfAborted();
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

  // @ts-expect-error the method has no number argument for the key function
  @DistributedLock((goodsNo: number) => goodsNo.toFixed())
  async wrongArgument(goodsNo: string): Promise<string> {
    return goodsNo;
  }

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

  // @ts-expect-error a key must be a string
  @DistributedLock((from) => [from, 5])
  async keysOfAnotherType(from: string): Promise<string> {
    return from;
  }

  // @ts-expect-error the number of permits is required
  @DistributedSemaphore('reports')
  async noPermits(): Promise<void> {}

  // @ts-expect-error permits must be a number or shared
  @DistributedSemaphore('reports', { permits: 'many' })
  async unknownPermits(): Promise<void> {}

  // @ts-expect-error a semaphore has one key
  @DistributedSemaphore(['a', 'b'], { permits: 1 })
  async permitsOfSeveral(): Promise<void> {}

  // @ts-expect-error a semaphore has one key
  @DistributedSemaphore((a: string) => [a], { permits: 1 })
  async permitsOfSeveralArguments(_a: string): Promise<void> {}

  // @ts-expect-error a semaphore has no mode
  @DistributedSemaphore('reports', { permits: 1, mode: 'read' })
  async permitsWithMode(): Promise<void> {}

  // @ts-expect-error a synchronous method ends before a permit can be acquired
  @DistributedSemaphore('reports', { permits: 1 })
  synchronousWithPermit(): string {
    return '';
  }

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

  // @ts-expect-error the decorator cannot be applied to a class
  @LeaderOnly('job')
  static async leaderOnTheClass(): Promise<void> {}

  // @ts-expect-error not a method
  @LeaderOnly('job')
  leaderProperty = 1;

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

/** applyDecorators() does not pass the method's type on. */
export const LockedRoute = (): MethodDecorator =>
  applyDecorators(Get(), DistributedLock((id: string) => id) as MethodDecorator);

/** A decorator of the application that wraps it. */
export const Locked = <M extends LockableMethod>(key: LockKey<M>): LockDecorator<M> =>
  DistributedLock(key, { wait: 5 });

export async function leaseTypes(
  locks: LockService,
  semaphores: SemaphoreService,
  keys: string | string[],
): Promise<void> {
  const one: Lease = await locks.acquire('stock', { mode: 'read' });
  const several: MultiLease = await locks.acquire(['a', 'b']);
  const either: Lease | MultiLease = await locks.acquire(keys);
  const constant = await locks.tryAcquire(['a', 'b'] as const, { mode: 'write' });
  const count: number = await locks.withLock(['a', 'b'], ({ leases }) => leases.length);
  await locks.withLock<void>('stock', ({ key }) => void key);
  // @ts-expect-error one key gives one lease
  await locks.withLock('stock', ({ leases }) => leases.length);
  // @ts-expect-error an unknown mode
  await locks.acquire('stock', { mode: 'shared' });
  for (const participant of await locks.participants('stock')) await locks.revoke(participant);
  await locks.revoke(one.key, { mode: 'read' });
  const text: string = await semaphores.withPermit('reports', { permits: count }, () => '');
  const leases: Lease[] = await semaphores.acquireEach(text, { permits: 'shared', count: 2 });
  await Promise.all(
    [...leases, ...(constant?.leases ?? []), either, several].map((lease) => lease.release()),
  );
  // @ts-expect-error the number of permits is required
  await semaphores.acquire('reports', { wait: 5 });
  // @ts-expect-error a semaphore has one key
  await semaphores.acquire(['a', 'b'], { permits: 1 });
}

export async function leaderTypes(leaders: LeaderService): Promise<void> {
  const term: Term = await leaders.latch('job', { id: 'me' }).await({ wait: 5 });
  const selector = leaders.select('job', ({ fencingToken }) => void fencingToken.toString(), {
    autoRequeue: true,
  });
  const leads: boolean = leaders.isLeader(term.election) && selector.interruptLeadership();
  const id: string | undefined = leads ? (await leaders.leader('job'))?.id : undefined;
  leaders.changes('job').subscribe((change) => change.isLeader || id || change.term?.signal);
  // @ts-expect-error undefined if another instance leads
  leaders.term('job').signal.throwIfAborted();
  // @ts-expect-error a latch takes no function
  leaders.latch('job', { autoRequeue: true });
  // @ts-expect-error a selector requires a function
  leaders.select('job');
}

export async function serviceTypes(locks: LockService): Promise<void> {
  const sum: number = await locks.withLock('stock', async ({ fencingToken }) =>
    Number(fencingToken),
  );
  const text: string = await locks.withLock('stock', { wait: sum }, () => '');
  await using lease = await locks.acquire(text, { signal: AbortSignal.timeout(5) });
  const attempt = await locks.tryAcquire(lease.key);
  // @ts-expect-error undefined if the lock is held elsewhere
  await attempt.release();
  // @ts-expect-error a misspelt option
  await locks.acquire('stock', { wiat: 5 });
}
