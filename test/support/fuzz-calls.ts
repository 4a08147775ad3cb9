import {
  currentLease,
  currentTerm,
  LeaderLatch,
  LeaderSelector,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  revoke,
  Semaphore,
  SharedCount,
  ZkClient,
} from 'nestjs-zookeeper';
import {
  acl,
  acquiring,
  candidate,
  data,
  type Entry,
  type FuzzTarget,
  junk,
  key,
  maybe,
  methods,
  optional,
  pathBelowRoot,
  permits,
  somePath,
  version,
  watch,
  work,
} from './fuzz-values.js';

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
