// One worker: acquires and releases leases of every recipe in several loops, takes part in two elections, and
// writes to its parent's store under its tokens while it holds a lease. It records its events in a file;
// histories.ts describes them.
import { setMaxListeners } from 'node:events';
import { closeSync, openSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  ConnectionError,
  CoordinationError,
  LeaderLatch,
  LeaderSelector,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  onDeadlock,
  ReadWriteLock,
  Semaphore,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { grantOf } from '../../dist/kernel/grant.js';
import { answer, send } from '../faults/child-side.mjs';
import { now } from '../faults/clock.js';
import { PERMITS, ROOT } from './keys.js';
import { Random } from './random.js';

const { connectString, sessionTimeout, transport, worker, life, file, seed } = JSON.parse(
  process.argv[2],
);

const random = new Random(seed);
const history = openSync(file, 'a');
const client = new ZkClient({
  connectString,
  sessionTimeout,
  transport,
  // A paused server accepts connections and never answers.
  connectTimeout: sessionTimeout / 4,
  retry: { type: 'fixed', delay: 50, maxRetries: 20 },
});
const finishing = new AbortController();
// Every wait adds a listener.
setMaxListeners(0, finishing.signal);
/** The leases that are held now, by their ids. */
const present = new Map();
let count = 0;

const path = (name) => `${ROOT}/${name}`;
const mutex = (name) => new Mutex(client, path(name), { key: name });
const pages = new ReadWriteLock(client, path('pages'), { key: 'pages' });
const seats = new Semaphore(client, path('seats'), { permits: PERMITS, key: 'seats' });
const ledger = new ReadWriteLock(client, path('ledger'), { key: 'ledger' });
const both = new MultiLock([mutex('left'), pages.write, mutex('right')]);

/**
 * Locks by rank: a holder waits only for locks of higher rank, so no deadlock is possible.
 *
 * @type {{ lock: import('nestjs-zookeeper/recipes').Lock; mode: string }[][]}
 */
const RANKS = [
  ['hall-1', 'hall-2', 'hall-3'].map((name) => ({ lock: mutex(name), mode: 'exclusive' })),
  [{ lock: mutex('room'), mode: 'exclusive' }],
  [
    { lock: ledger.read, mode: 'read' },
    { lock: ledger.write, mode: 'write' },
  ],
  [{ lock: mutex('drawer'), mode: 'exclusive' }],
];
/** The number of call chains that acquire two of them. */
const CHAINS = 4;
/** The maximum hold of some second locks in milliseconds, so that some nested waits take long. */
const LONG_HOLD = 1_000;

const JOBS = [
  job(mutex(`own-${worker}`), 'exclusive'),
  job(mutex('till'), 'exclusive'),
  job(mutex('till'), 'exclusive'),
  job(mutex('left'), 'exclusive'),
  job(mutex('right'), 'exclusive'),
  job(new NonReentrantMutex(client, path('door'), { key: 'door' }), 'exclusive'),
  job(pages.read, 'read'),
  job(pages.read, 'read'),
  job(pages.write, 'write'),
  job(seats, 'permit'),
  job(seats, 'permit'),
  job(both, 'exclusive'),
  // Held for so long that most faults of its holder fall into a hold.
  job(mutex('vault'), 'exclusive', 2 * sessionTimeout),
  ...Array.from({ length: CHAINS }, () => nestedJob()),
];

const latch = new LeaderLatch(client, path('latch'), { id: worker, onError });
latch.onChange((term) => {
  if (term) void lead('latch', term).then(() => (term.active ? latch.resign() : undefined));
});
const selector = new LeaderSelector(
  client,
  path('selector'),
  async (term) => {
    await lead('selector', term);
  },
  { id: worker, autoRequeue: true, onError },
);

onDeadlock(({ message }) => record({ type: 'deadlock', message, at: now() }));

answer({
  async finish() {
    finishing.abort();
    await Promise.all([...loops, latch.close(), selector.close()]);
  },
  async credentials() {
    const session = await client.session();
    // The public type of a session has no credentials.
    return 'credentials' in session ? session.credentials : undefined;
  },
  async block(milliseconds) {
    while (present.size === 0) await delay(1);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
    // This is the first code that runs after the pause.
    for (const [id, lease] of present) {
      const at = now();
      const aborted = lease.signal.aborted;
      const { held } = lease;
      record({ type: 'woke', id, held, aborted, abortedThen: lease.signal.aborted, at });
    }
  },
});

send({ type: 'ready' });
await connect();
record({ type: 'connected', transport: client.transport, at: now() });
latch.start();
selector.start();
const loops = JOBS.map((work) => work());
await Promise.all(loops);

/** Retries, because the replacement of a killed process may start while the servers are down. */
async function connect() {
  for (;;) {
    try {
      return await client.connect();
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
    }
  }
}

/** @param longest the maximum hold in milliseconds */
function job(lock, mode, longest = 40) {
  return repeatedly(async () => {
    const options = {
      wait: random.of([0, random.between(50, 500), 10_000]),
      signal: finishing.signal,
    };
    const permits = mode === 'permit' ? random.whole(1, 2) : undefined;
    if (permits) options.count = permits;
    const lease = await lock.acquire(options);
    await use(lease, mode, permits, worked(lease, mode, longest));
    await lease.release();
  });
}

/** Acquires a lock inside another one, in one call chain. */
function nestedJob() {
  return repeatedly(async () => {
    const first = random.whole(0, RANKS.length - 2);
    const second = random.whole(first + 1, RANKS.length - 1);
    const [outer, inner] = [first, second].map((rank) => random.of(RANKS[rank]));
    const { signal } = finishing;
    await outer.lock.withLock((lease) => use(lease, outer.mode, 1, () => nest(inner)), { signal });
  });
}

async function nest({ lock, mode }) {
  const longest = random.next() < 0.3 ? LONG_HOLD : 40;
  const options = {
    wait: random.of([random.between(400, 2_000), 10_000, Infinity]),
    signal: finishing.signal,
  };
  const from = now();
  // Recorded however the wait ends.
  const entry = await lock
    .enter(options)
    .finally(() => record({ type: 'nested', from, at: now() }));
  const { lease } = entry;
  try {
    await entry.run(() => use(lease, mode, 1, worked(lease, mode, longest)));
  } finally {
    await entry.release();
  }
}

function repeatedly(attempt) {
  return async () => {
    while (!finishing.signal.aborted) {
      try {
        await attempt();
      } catch (error) {
        onError(error);
        await delay(20);
      }
      await delay(random.between(5, 40));
    }
  };
}

/** Records a lease while `act` runs. The lease of a multi-lock counts as one for each of its locks. */
async function use(lease, mode, permits, act) {
  const parts = (lease.leases ?? [lease]).map((part) => {
    const [key, taken] = [part.key, part.key === 'pages' && mode === 'exclusive' ? 'write' : mode];
    return begin(part, key, taken, permits);
  });
  try {
    await act(parts);
  } finally {
    const at = now();
    for (const { id } of parts) end(id, { type: 'releasing', at });
  }
}

function worked(lease, mode, longest) {
  const writes = mode === 'exclusive' || mode === 'write';
  return (parts) => work(lease, parts, writes, random.between(0, longest));
}

async function lead(election, term) {
  // A term has no public lease.
  const part = begin(term.lease, election, 'exclusive');
  await work(term.lease, [part], true, random.between(50, 800));
  end(part.id, { type: 'releasing', at: now() });
}

function begin(lease, key, mode, permits = 1) {
  const id = `${worker}.${life}.${++count}`;
  const at = now();
  const { held, fencingToken: token } = lease;
  record({ type: 'granted', id, key, mode, count: permits, token: String(token), held, at });
  present.set(id, lease);
  lease.signal.addEventListener('abort', () => {
    end(id, { type: 'lost', why: lease.signal.reason.message, at: now() });
  });
  send({ type: 'granted' });
  void locate(id, lease);
  return { id, key };
}

function end(id, event) {
  if (present.delete(id)) record({ id, ...event });
}

/** Records the sequence numbers of a lease's znodes, and the czxid of their parent. */
async function locate(id, lease) {
  const grant = grantOf(lease);
  if (!grant) throw new Error('the lease has no grant');
  const { nodes } = grant.ownership.position;
  const [node = ''] = nodes;
  const directory = node.slice(0, node.lastIndexOf('/'));
  const stat = await client.exists(directory).catch(() => undefined);
  // If the lease was lost meanwhile, the parent may have been created anew.
  if (!stat || !lease.held) return;
  const sequences = nodes.map((node) => Number(node.slice(-10)));
  record({ type: 'place', id, directory: stat.czxid, sequences });
}

async function work(lease, parts, writes, milliseconds) {
  const until = now() + milliseconds;
  while (now() < until && !finishing.signal.aborted) {
    if (writes) {
      for (const { id, key } of parts) {
        const at = now();
        // Checked before each piece of work, as applications should.
        if (!lease.held) return;
        record({ type: 'write', id, at });
        send({ type: 'write', id, key, token: lease.fencingToken });
      }
    }
    await delay(10);
  }
}

function onError(error) {
  const expected = error instanceof CoordinationError;
  if (!expected) record({ type: 'broken', why: String(error?.stack ?? error), at: now() });
}

function record(event) {
  writeSync(history, `${JSON.stringify(event)}\n`);
}

process.on('exit', () => closeSync(history));
