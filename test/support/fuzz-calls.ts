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
  optional,
  permits,
  pathBelowRoot,
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
  const entry = (method: 'acquire' | 'tryAcquire' | 'enter'): Entry => [
    `${recipe}.${method}`,
    (path, options, args) => made(path, options)[method](args),
    somePath,
    lockOptions,
    acquiring,
  ];
  return [
    entry('acquire'),
    entry('tryAcquire'),
    entry('enter'),
    [
      `${recipe}.withLock`,
      (path, options, fn, args) => made(path, options).withLock(fn, args),
      somePath,
      lockOptions,
      work,
      acquiring,
    ],
    [
      `${recipe}.participants`,
      (path, options) => made(path, options).participants(),
      somePath,
      lockOptions,
    ],
    [`${recipe}.revoke`, (path, options) => made(path, options).revoke(), somePath, lockOptions],
  ];
}

export const recipesOn = (on: FuzzTarget): Entry[] => [
  ...locksOf(on, 'mutex', (path, options) => new Mutex(on.client, path, options)),
  ...locksOf(on, 'pages', (path, options) => new ReadWriteLock(on.client, path, options).read),
  ...locksOf(on, 'pages', (path, options) => new ReadWriteLock(on.client, path, options).write),
  ...locksOf(on, 'door', (path, options) => new NonReentrantMutex(on.client, path, options)),
  ...locksOf(on, 'seats', (path, options) => new Semaphore(on.client, path, options)),
  [
    'semaphore.acquireEach',
    (path, count, args) =>
      new Semaphore(on.client, pathBelowRoot(on, 'more', path), { permits: count }).acquireEach(
        args,
      ),
    somePath,
    maybe(3),
    permits,
  ],
  ['new MultiLock', (locks) => new MultiLock(locks).acquire({ wait: 0 }), maybe([])],
  [
    'multiLock.acquire',
    (args) => new MultiLock([new Mutex(on.client, `${on.root}/multi/a`)]).acquire(args),
    acquiring,
  ],
  [
    'multiLock.withLock',
    (fn, args) => new MultiLock([new Mutex(on.client, `${on.root}/multi/a`)]).withLock(fn, args),
    work,
    acquiring,
  ],
  [
    'readWriteLock.downgrade',
    (lease) => new ReadWriteLock(on.client, `${on.root}/pages/a`).downgrade(lease),
    junk,
  ],
  [
    'sharedCount.set',
    (path, value) => new SharedCount(on.client, pathBelowRoot(on, 'count', path)).set(value),
    somePath,
    maybe(1),
  ],
  [
    'sharedCount.trySet',
    (path, value, at) =>
      new SharedCount(on.client, pathBelowRoot(on, 'count', path)).trySet(value, at),
    somePath,
    maybe(1),
    version,
  ],
  [
    'new LeaderLatch',
    (path, options, mode) =>
      new LeaderLatch(on.client, pathBelowRoot(on, 'latch', path), options).close(mode),
    somePath,
    candidate,
    maybe('silent', 'notify', undefined),
  ],
  [
    'latch.await',
    (args) => {
      const latch = new LeaderLatch(on.client, `${on.root}/latch/a`);
      latch.start();
      return latch.await(args).finally(() => latch.close());
    },
    acquiring,
  ],
  ['latch.onChange', (fn) => new LeaderLatch(on.client, `${on.root}/latch/a`).onChange(fn), work],
  [
    'new LeaderSelector',
    (path, fn, options) =>
      new LeaderSelector(on.client, pathBelowRoot(on, 'selector', path), fn, options).close(),
    somePath,
    work,
    candidate,
  ],
  ['revoke', (asked) => revoke(on.client, asked), optional({ path: junk })],
  ['currentLease', (name) => currentLease(name), key],
  ['currentTerm', (name) => currentTerm(name), key],
];

export const clientOn = (on: FuzzTarget): Entry[] => [
  [
    'new ZkClient',
    (options) => new ZkClient(options),
    optional({
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
    }),
  ],
  [
    'client.session',
    (options) => on.client.session(options),
    optional({ signal: maybe(undefined) }),
  ],
  ['client.onState', (fn) => on.client.onState(fn), work],
  [
    'client.create',
    (path, content, options) =>
      on.client.create(pathBelowRoot(on, 'nodes', path), content, options),
    somePath,
    data,
    optional({ mode: maybe('ephemeral', 'container') }),
  ],
  [
    'client.delete',
    (path, at) => on.client.delete(pathBelowRoot(on, 'nodes', path), at),
    somePath,
    version,
  ],
  [
    'client.set',
    (path, content, at) => on.client.set(pathBelowRoot(on, 'nodes', path), content, at),
    somePath,
    data,
    version,
  ],
  [
    'client.setAcl',
    (path, entries, at) => on.client.setAcl(pathBelowRoot(on, 'nodes', path), entries, at),
    somePath,
    acl,
    version,
  ],
  ...(
    [
      'get',
      'exists',
      'children',
      'sync',
      'watch',
      'watchExists',
      'watchChildren',
      'ensureContainers',
    ] as const
  ).map((method): Entry => [
    `client.${method}`,
    (path) => on.client[method](pathBelowRoot(on, 'nodes', path)),
    somePath,
  ]),
  ...(['get', 'exists', 'children'] as const).map((method): Entry => [
    `session.${method}`,
    async (path, options) =>
      (await on.client.session())[method](pathBelowRoot(on, 'nodes', path), options),
    somePath,
    watch,
  ]),
  [
    'session.guaranteedDelete',
    async (path) => (await on.client.session()).guaranteedDelete(pathBelowRoot(on, 'nodes', path)),
    somePath,
  ],
  ['session.onLost', async (fn) => (await on.client.session()).onLost(fn), work],
];
