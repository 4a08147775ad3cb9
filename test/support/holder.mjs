// A process that holds one of everything, for tests that stop it or block its event loop. What it looks at
// after such a pause, it looks at in the first code that runs then.
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

/** Milliseconds: who did not run for so long was stopped. */
const PAUSE = 800;

const { connectString, sessionTimeout, transport, root } = JSON.parse(process.argv[2]);
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
/** By kind: what is held, and its signal as it was read when it was granted. */
const held = new Map();
/** What the first tick after a pause saw. */
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
  /** Some turns of the event loop later. */
  async later() {
    await new Promise((resolve) => setTimeout(resolve, 10));
    return look();
  },
});

/** Each has a session of its own: to look at one of them tells nothing to the others. */
async function connect() {
  const client = new ZkClient({ connectString, sessionTimeout, transport });
  await client.connect();
  return client;
}

function hold(kind, right) {
  held.set(kind, { right, signal: right.signal });
}

/** In the order in which a program may look: at what it saved, at the property, at whether it holds. */
function look() {
  return Object.fromEntries(
    [...held].map(([kind, { right, signal }]) => {
      const saved = signal.aborted;
      const aborted = right.signal.aborted;
      return [kind, { saved, aborted, held: right.held ?? right.active }];
    }),
  );
}
