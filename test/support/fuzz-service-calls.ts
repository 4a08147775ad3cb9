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
  methods,
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
    ...methods('lockService', locks, {
      acquire: [keys, lockCall],
      tryAcquire: [keys, lockCall],
      enter: [keys, lockCall],
      held: [keys, lockCall],
      participants: [key, lockCall],
      revoke: [key, lockCall],
    }),
    [
      'lockService.withLock',
      (name, args, fn) => locks().withLock(name, args, fn),
      keys,
      lockCall,
      work,
    ],
    ['lockService.withLock', (name, fn) => locks().withLock(name, fn), keys, work],
    ...methods('semaphoreService', semaphores, {
      acquire: [key, permits],
      tryAcquire: [key, permits],
      acquireEach: [key, permits],
      withPermit: [key, permits, work],
      setPermits: [key, maybe(2), permits],
      available: [key, permits],
      participants: [key, permits],
    }),
    ['leaderService.latch', (name, args) => leaders().latch(name, args).close(), key, candidate],
    [
      'leaderService.select',
      (name, fn, args) => leaders().select(name, fn, args).close(),
      key,
      work,
      candidate,
    ],
    ...methods('leaderService', leaders, {
      isLeader: [key],
      term: [key],
      leader: [key, candidate],
      participants: [key, candidate],
      changes: [key],
      resign: [key],
    }),
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
