/*
 * What the types of @DistributedLock accept and refuse. Nothing here runs: `npm run typecheck` is the
 * test, and an @ts-expect-error that has nothing to expect fails it.
 */
import { applyDecorators, type ExecutionContext, Get, Injectable, Param } from '@nestjs/common';
import { DistributedLock, type LockService } from 'nestjs-zookeeper';
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
}

@Injectable()
export class Refused {
  // @ts-expect-error a synchronous method has ended before a lock could be taken
  @DistributedLock('stock')
  synchronous(): string {
    return '';
  }

  // @ts-expect-error the method has no number to make a key of
  @DistributedLock((goodsNo: number) => goodsNo.toFixed())
  async wrongArgument(goodsNo: string): Promise<string> {
    return goodsNo;
  }

  // @ts-expect-error the method has one argument
  @DistributedLock((goodsNo: string, count: number) => goodsNo + count)
  async tooManyArguments(goodsNo: string): Promise<string> {
    return goodsNo;
  }

  // @ts-expect-error a key is a string
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

  // @ts-expect-error a key from the context is for handlers, which may not be skipped
  @DistributedLock({ keyFromContext: () => 'stock', wait: 0, onBusy: 'skip' })
  async skippedHandler(): Promise<void> {}

  // @ts-expect-error nothing is injected into a class
  @DistributedLock('stock')
  static async onTheClass(): Promise<void> {}

  // @ts-expect-error not a method
  @DistributedLock('stock')
  property = 1;
}

/** applyDecorators knows no method to check against. */
export const LockedRoute = (): MethodDecorator =>
  applyDecorators(Get(), DistributedLock((id: string) => id) as MethodDecorator);

export async function serviceTypes(locks: LockService): Promise<void> {
  const sum: number = await locks.withLock('stock', async ({ fencingToken }) =>
    Number(fencingToken),
  );
  const text: string = await locks.withLock('stock', { wait: sum }, () => '');
  await using lease = await locks.acquire(text, { signal: AbortSignal.timeout(5) });
  const attempt = await locks.tryAcquire(lease.key);
  // @ts-expect-error others may hold it
  await attempt.release();
  // @ts-expect-error a misspelt option
  await locks.acquire('stock', { wiat: 5 });
}
