import {
  DistributedLock,
  DistributedSemaphore,
  LeaderOnly,
  LeaderService,
  LockService,
  OnElected,
  OnResigned,
  SemaphoreService,
  ZkModule,
} from 'nestjs-zookeeper';
import {
  acquiring,
  candidate,
  type Entry,
  type FuzzTarget,
  junk,
  key,
  maybe,
  optional,
  permits,
  waiting,
  work,
} from './fuzz-values.js';

const lockCall = optional({
  ...waiting,
  mode: maybe('exclusive', 'read', 'write'),
  reentrant: maybe(true, false),
  path: junk,
});
const keys = maybe('k', ['k', 'l']);

export function servicesOn(on: FuzzTarget): Entry[] {
  const locks = () => new LockService(on.client);
  const semaphores = () => new SemaphoreService(on.client);
  const leaders = () => new LeaderService(on.client);

  return [
    ['new LockService', (defaults) => new LockService(on.client, defaults), acquiring],
    ['lockService.acquire', (name, args) => locks().acquire(name, args), keys, lockCall],
    ['lockService.tryAcquire', (name, args) => locks().tryAcquire(name, args), keys, lockCall],
    ['lockService.enter', (name, args) => locks().enter(name, args), keys, lockCall],
    [
      'lockService.withLock',
      (name, args, fn) => locks().withLock(name, args, fn),
      keys,
      lockCall,
      work,
    ],
    ['lockService.withLock', (name, fn) => locks().withLock(name, fn), keys, work],
    ['lockService.held', (name, args) => locks().held(name, args), keys, lockCall],
    ['lockService.participants', (name, args) => locks().participants(name, args), key, lockCall],
    ['lockService.revoke', (asked, args) => locks().revoke(asked, args), key, lockCall],
    ['semaphoreService.acquire', (name, args) => semaphores().acquire(name, args), key, permits],
    [
      'semaphoreService.tryAcquire',
      (name, args) => semaphores().tryAcquire(name, args),
      key,
      permits,
    ],
    [
      'semaphoreService.acquireEach',
      (name, args) => semaphores().acquireEach(name, args),
      key,
      permits,
    ],
    [
      'semaphoreService.withPermit',
      (name, args, fn) => semaphores().withPermit(name, args, fn),
      key,
      permits,
      work,
    ],
    [
      'semaphoreService.setPermits',
      (name, count, args) => semaphores().setPermits(name, count, args),
      key,
      maybe(2),
      permits,
    ],
    [
      'semaphoreService.available',
      (name, args) => semaphores().available(name, args),
      key,
      permits,
    ],
    [
      'semaphoreService.participants',
      (name, args) => semaphores().participants(name, args),
      key,
      permits,
    ],
    ['leaderService.latch', (name, args) => leaders().latch(name, args).close(), key, candidate],
    [
      'leaderService.select',
      (name, fn, args) => leaders().select(name, fn, args).close(),
      key,
      work,
      candidate,
    ],
    ['leaderService.isLeader', (name) => leaders().isLeader(name), key],
    ['leaderService.term', (name) => leaders().term(name), key],
    ['leaderService.leader', (name, args) => leaders().leader(name, args), key, candidate],
    [
      'leaderService.participants',
      (name, args) => leaders().participants(name, args),
      key,
      candidate,
    ],
    ['leaderService.changes', (name) => leaders().changes(name), key],
    ['leaderService.resign', (name) => leaders().resign(name), key],
    [
      'ZkModule.forRoot',
      (options) => ZkModule.forRoot(options),
      optional({
        connectString: maybe('localhost:2181'),
        name: maybe('other'),
        isGlobal: maybe(true),
        defaults: acquiring,
        elections: maybe([]),
        lazyConnection: maybe(true),
      }),
    ],
    [
      'ZkModule.forRootAsync',
      (options) => ZkModule.forRootAsync(options),
      optional({
        useFactory: maybe(() => ({ connectString: 'localhost' })),
        inject: maybe([]),
        name: maybe('other'),
      }),
    ],
    ...[DistributedLock, DistributedSemaphore, LeaderOnly, OnElected, OnResigned].map(
      (decorator): Entry => [
        `@${decorator.name}`,
        (first, second) => {
          const target = { async method() {} };
          const descriptor = Object.getOwnPropertyDescriptor(target, 'method')!;
          const decorate = (decorator as unknown as (...args: unknown[]) => MethodDecorator)(
            first,
            second,
          );
          decorate(target, 'method', descriptor);
        },
        keys,
        lockCall,
      ],
    ),
  ];
}
