// A process that holds one lease of each kind, for tests that stop it or block its event loop. It
// reads the leases in the first code that runs after such a pause.
import {
  LeaderLatch,
  LeaderSelector,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { answer } from '../../dist-scripts/faults/child-side.js';

/** Milliseconds. A longer gap between two ticks means that the process was stopped. */
const PAUSE = 800;

const { connectString, sessionTimeout, transport, root } = JSON.parse(process.argv[2]);
// As in test/support/servers.ts.
const allowUnsafeFencing = process.env.ZK_PROFILE === 'raftkeeper';
const path = (name) => `${root}/${name}`;
const locks = {
  mutex: (client) => new Mutex(client, path('mutex')),
  read: (client) => new ReadWriteLock(client, path('read')).read,
  write: (client) => new ReadWriteLock(client, path('write')).write,
  semaphore: (client) => new Semaphore(client, path('semaphore'), { permits: 1 }),
  'non-reentrant': (client) => new NonReentrantMutex(client, path('non-reentrant')),
  multi: (client) =>
    new MultiLock([new Mutex(client, path('multi')), new Mutex(client, path('multi-2'))]),
};
/** The leases by kind, each with the signal as it was read at the grant. */
const held = new Map();
/** What the first tick after a pause read. */
let seen;

answer({
  async hold() {
    for (const [kind, lock] of Object.entries(locks)) {
      hold(kind, await lock(await connect()).acquire());
    }
    const latch = new LeaderLatch(await connect(), path('latch'));
    latch.start();
    hold('latch', await latch.await());
    const client = await connect();
    await new Promise((resolve) => {
      const selector = new LeaderSelector(client, path('selector'), (term) => {
        hold('selector', term);
        resolve();
        return new Promise((done) => term.signal.addEventListener('abort', () => done()));
      });
      selector.start();
    });
    let last = performance.now();
    setInterval(() => {
      const now = performance.now();
      if (now - last > PAUSE) seen ??= look();
      last = now;
    }, 1);
    return Object.fromEntries([...held].map(([kind, { right }]) => [kind, right.fencingToken]));
  },
  block(milliseconds) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
    return look();
  },
  seen: () => seen,
  /** Read again after some turns of the event loop. */
  async later() {
    await new Promise((resolve) => setTimeout(resolve, 10));
    return look();
  },
});

/**
 * Creates a client with a session of its own, so that reading one lease does not notify the others.
 */
async function connect() {
  const client = new ZkClient({ connectString, sessionTimeout, transport, allowUnsafeFencing });
  await client.connect();
  return client;
}

function hold(kind, right) {
  held.set(kind, { right, signal: right.signal });
}

/**
 * Reads the saved signal, then the property, then `held`: the order in which a program may check.
 */
function look() {
  return Object.fromEntries(
    [...held].map(([kind, { right, signal }]) => {
      const saved = signal.aborted;
      const aborted = right.signal.aborted;
      return [kind, { saved, aborted, held: right.held ?? right.active }];
    }),
  );
}
