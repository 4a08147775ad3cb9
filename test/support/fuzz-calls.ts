import fc from 'fast-check';
import {
  currentLease,
  currentTerm,
  DistributedLock,
  DistributedSemaphore,
  LeaderOnly,
  LeaderService,
  LockService,
  OnElected,
  OnResigned,
  SemaphoreService,
  ZkClient,
  ZkModule,
} from 'nestjs-zookeeper';
import {
  LeaderLatch,
  LeaderSelector,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  revoke,
  Semaphore,
  SharedCount,
} from 'nestjs-zookeeper/recipes';

// Random arguments for calls of the public API.

const throwing = {
  toString(): string {
    throw new Error('toString');
  },
  valueOf(): number {
    throw new Error('valueOf');
  },
};
const junk = fc.oneof(
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
  fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    '/',
    'x',
    '/x/',
    '/../x',
    '/nul\0',
    '/\u{1f600}',
    Number.NaN,
    -1,
    -0,
    0.5,
    2 ** 31,
    Number.MAX_VALUE,
    Infinity,
    -Infinity,
    1n,
    Symbol('junk'),
    throwing,
    new Proxy({}, {}),
    Object.create(null),
    () => undefined,
    async () => undefined,
    new Uint16Array(2),
    new AbortController().signal,
    AbortSignal.abort(),
    'x'.repeat(1_100_000),
  ),
);

/** A valid value or a value of any kind. */
const maybe = (...right: unknown[]) =>
  fc.oneof({ arbitrary: fc.constantFrom(...right), weight: 3 }, { arbitrary: junk, weight: 2 });
const optional = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.oneof(
    { arbitrary: fc.record(fields, { requiredKeys: [] }), weight: 4 },
    { arbitrary: junk, weight: 1 },
  );

/** A path that only the fuzz test uses. Its contents are deleted after the test. */
const somePath = fc.oneof(
  { arbitrary: fc.constantFrom('a', 'b', 'c').map((name) => ({ below: name })), weight: 3 },
  { arbitrary: junk, weight: 1 },
);
const waiting = {
  wait: maybe(0, 1, 20, undefined),
  signal: maybe(undefined),
  holdAtLeast: maybe(0, 1),
  holdAtMost: maybe(1, 50, Infinity),
  details: optional({ name: maybe('n'), text: maybe('t'), data: junk }),
};
const acquiring = optional(waiting);
const work = maybe(() => 1);

export type Call = (...args: never[]) => unknown;
type Entry = readonly [name: string, call: Call, ...args: fc.Arbitrary<unknown>[]];

const data = maybe('x', new Uint8Array(2), undefined);
const version = maybe(-1, 0);
const acl = maybe([{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }]);
const watch = optional({ watch: maybe(true, false) });
const permits = optional({ ...waiting, permits: maybe(2), count: maybe(1, 2), path: junk });
const key = maybe('k', 'l');
const candidate = optional({ id: maybe('me'), key: maybe('e'), onError: maybe(() => {}) });

/** The services or clients under test; they exist once the tests run. */
export interface FuzzTarget {
  client: ZkClient;
  /** An arbitrary valid path. */
  root: string;
}

/** Moves a valid path below the root of the fuzz test. */
function pathBelowRoot({ root }: FuzzTarget, recipe: string, path: unknown): string {
  const below = (path as { below?: string } | null | undefined)?.below;
  return typeof below === 'string' ? `${root}/${recipe}/${below}` : (path as string);
}

/** Returns an entry for each method of an object, with the arguments of the method. */
const methods = (
  name: string,
  object: (path: unknown) => object | Promise<object>,
  argumentsOf: Record<string, fc.Arbitrary<unknown>[]>,
): Entry[] =>
  Object.entries(argumentsOf).map(([method, args]) => [
    `${name}.${method}`,
    async (path: unknown, ...rest: unknown[]) => {
      const called = (await object(path)) as Record<string, (...args: unknown[]) => unknown>;
      return called[method]!(...rest);
    },
    somePath,
    ...args,
  ]);

const lockOptions = optional({ key: maybe('k'), reentrant: maybe(true, false) });

function locksOf(
  on: FuzzTarget,
  recipe: string,
  make: (path: never, options: never) => unknown,
): Entry[] {
  const made = (path: unknown, options: unknown) =>
    make(pathBelowRoot(on, recipe, path) as never, options as never) as Mutex;
  const entries: Entry[] = (['acquire', 'tryAcquire', 'enter'] as const).map((method) => [
    `${recipe}.${method}`,
    (path, options, args) => made(path, options)[method](args),
    somePath,
    lockOptions,
    acquiring,
  ]);
  const withLock = (path: unknown, options: unknown, fn: never, args: never) =>
    made(path, options).withLock(fn, args);
  return [
    ...entries,
    [`${recipe}.withLock`, withLock, somePath, lockOptions, work, acquiring],
    [`${recipe}.participants`, (path, o) => made(path, o).participants(), somePath, lockOptions],
    [`${recipe}.revoke`, (path, o) => made(path, o).revoke(), somePath, lockOptions],
  ];
}

export function recipesOn(on: FuzzTarget): Entry[] {
  const below = (recipe: string, path: unknown) => pathBelowRoot(on, recipe, path);
  const multi = () => new MultiLock([new Mutex(on.client, `${on.root}/multi/a`)]);
  const latch = () => new LeaderLatch(on.client, `${on.root}/latch/a`);
  const awaited = (args: never) => {
    const started = latch();
    started.start();
    return started.await(args).finally(() => started.close());
  };
  const acquireEach = (path: unknown, count: never, args: never) =>
    new Semaphore(on.client, below('more', path), { permits: count }).acquireEach(args);
  const closedLatch = (path: unknown, options: never, mode: never) =>
    new LeaderLatch(on.client, below('latch', path), options).close(mode);
  const selector = (path: unknown, fn: never, options: never) =>
    new LeaderSelector(on.client, below('selector', path), fn, options).close();
  const count = (path: unknown) => new SharedCount(on.client, below('count', path));
  return [
    ...locksOf(on, 'mutex', (path, options) => new Mutex(on.client, path, options)),
    ...locksOf(on, 'pages', (path, options) => new ReadWriteLock(on.client, path, options).read),
    ...locksOf(on, 'pages', (path, options) => new ReadWriteLock(on.client, path, options).write),
    ...locksOf(on, 'door', (path, options) => new NonReentrantMutex(on.client, path, options)),
    ...locksOf(on, 'seats', (path, options) => new Semaphore(on.client, path, options)),
    ['semaphore.acquireEach', acquireEach, somePath, maybe(3), permits],
    ['new MultiLock', (locks) => new MultiLock(locks).acquire({ wait: 0 }), maybe([])],
    ...methods('multiLock', multi, { acquire: [acquiring], withLock: [work, acquiring] }),
    ...methods('readWriteLock', () => new ReadWriteLock(on.client, `${on.root}/pages/a`), {
      downgrade: [junk],
    }),
    ...methods('sharedCount', count, { set: [maybe(1)], trySet: [maybe(1), version] }),
    ['new LeaderLatch', closedLatch, somePath, candidate, maybe('silent', 'notify', undefined)],
    ['latch.await', awaited, acquiring],
    ...methods('latch', latch, { onChange: [work] }),
    ['new LeaderSelector', selector, somePath, work, candidate],
    ['revoke', (asked) => revoke(on.client, asked), optional({ path: junk })],
    ['currentLease', (name) => currentLease(name), key],
    ['currentTerm', (name) => currentTerm(name), key],
  ];
}

export function clientOn(on: FuzzTarget): Entry[] {
  const clientOptions = optional({
    connectString: maybe('localhost:2181', 'a,b/chroot'),
    sessionTimeout: maybe(1000),
    connectTimeout: maybe(1000),
    namespace: maybe('shop'),
    auth: maybe([]),
    acl,
    retry: maybe({ type: 'exponential' }),
    policy: maybe('session', 'standard'),
    transport: maybe('wire'),
    tls: maybe({}),
  });
  const mode = optional({ mode: maybe('ephemeral', 'container') });
  /** The methods whose first argument is a path. */
  const ofClient = {
    ...{ create: [data, mode], delete: [version], set: [data, version], setAcl: [acl, version] },
    ...{ get: [], exists: [], children: [], sync: [], ensureContainers: [] },
    ...{ watch: [], watchExists: [], watchChildren: [] },
  };
  const ofSession = { get: [watch], exists: [watch], children: [watch], guaranteedDelete: [] };
  const atPath = (name: string, object: () => object, methodsOf: Record<string, Entry[2][]>) =>
    Object.entries(methodsOf).map(([method, args]): Entry => [
      `${name}.${method}`,
      async (path: unknown, ...rest: unknown[]) => {
        const called = (await object()) as Record<string, (...args: unknown[]) => unknown>;
        return called[method]!(pathBelowRoot(on, 'nodes', path), ...rest);
      },
      somePath,
      ...args,
    ]);
  return [
    ['new ZkClient', (options) => new ZkClient(options), clientOptions],
    ...methods('client', () => on.client, {
      session: [optional({ signal: maybe(undefined) })],
      onState: [work],
    }),
    ...atPath('client', () => on.client, ofClient),
    ...atPath('session', () => on.client.session(), ofSession),
    ...methods('session', () => on.client.session(), { onLost: [work] }),
  ];
}

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
