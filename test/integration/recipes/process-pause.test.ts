import {
  LeaderLatch,
  LeaderSelector,
  type Lease,
  MultiLock,
  Mutex,
  NonReentrantMutex,
  ReadWriteLock,
  Semaphore,
  type Term,
  type ZkClient,
} from 'nestjs-zookeeper/recipes';
import { describe, expect } from 'vitest';
import type { SimulatedProcess } from '../../../lib/testing/index.js';
import { aborted } from '../../support/clients.js';
import { currentWorld, it } from '../../support/virtual-time.js';

// A process was paused for longer than its session timeout, so that other processes hold its locks.

const SESSION_TIMEOUT = 1_000;

type Right = Lease | Term;

async function led(client: ZkClient): Promise<Term> {
  const latch = new LeaderLatch(client, '/latch');
  latch.start();
  return latch.await();
}

function selected(client: ZkClient): Promise<Term> {
  return new Promise((resolve) => {
    new LeaderSelector(client, '/selector', (term) => {
      resolve(term);
      return aborted(term.signal).then(() => {});
    }).start();
  });
}

/** How the holder and the next process acquire each lock. */
const LOCKS: Record<string, (client: ZkClient, next: boolean) => Promise<Right>> = {
  mutex: (client) => new Mutex(client, '/mutex').acquire(),
  read: (client, next) => new ReadWriteLock(client, '/read')[next ? 'write' : 'read'].acquire(),
  write: (client) => new ReadWriteLock(client, '/write').write.acquire(),
  semaphore: (client) => new Semaphore(client, '/semaphore', { permits: 1 }).acquire(),
  'non-reentrant': (client) => new NonReentrantMutex(client, '/non-reentrant').acquire(),
  multi: (client) =>
    new MultiLock([new Mutex(client, '/multi'), new Mutex(client, '/multi-2')]).acquire(),
  latch: led,
  selector: selected,
};

interface Held {
  readonly process: SimulatedProcess;
  readonly right: Right;
  /** The signal as it was read at the grant. */
  readonly signal: AbortSignal;
}

/** Starts a process for each lock, with a session of its own, so that reading one lease does not notify the others. */
function holdAll(sessionTimeout: number): Promise<Held[]> {
  return Promise.all(
    Object.entries(LOCKS).map(async ([name, acquire]) => {
      const process = currentWorld().process(name);
      const client = await process.client({ sessionTimeout });
      const right = await process.run(() => acquire(client, false));
      return { process, right, signal: right.signal };
    }),
  );
}

/** Reads the saved signal, then the property, then `held`: the order in which a program may check. */
function look({ right, signal }: Held) {
  const saved = signal.aborted;
  const aborted = right.signal.aborted;
  return { saved, aborted, held: 'held' in right ? right.held : right.active };
}

/** Acquires all locks in another process, and returns the tokens. */
async function takeAll(): Promise<bigint[]> {
  const next = currentWorld().process('next');
  const client = await next.client({ sessionTimeout: 60_000 });
  return next.run(async () => {
    const rights = Object.values(LOCKS).map((acquire) => acquire(client, true));
    return (await Promise.all(rights)).map(({ fencingToken }) => fencingToken);
  });
}

describe.each([
  [
    'stopped',
    async (held: Held[]) => {
      const seen = held.map(
        (each) =>
          new Promise<ReturnType<typeof look>>((resolve) => {
            void each.process.run(() => {
              let last = performance.now();
              setInterval(() => {
                const now = performance.now();
                if (now - last > SESSION_TIMEOUT) resolve(look(each));
                last = now;
              }, 1);
            });
          }),
      );
      await currentWorld().sleep(10);
      for (const { process } of held) process.pause();
      const next = await takeAll();
      for (const { process } of held) process.resume();
      return { seen: await Promise.all(seen), next };
    },
  ],
  [
    'blocked',
    async (held: Held[]) => {
      const seen = held.map((each) =>
        each.process.run(() => {
          each.process.block(3 * SESSION_TIMEOUT);
          return look(each);
        }),
      );
      const next = await takeAll();
      return { seen: await Promise.all(seen), next };
    },
  ],
])('a process that was %s for longer than its session', (_, pauseWhileOthersAcquire) => {
  it('holds nothing in the first code that runs afterwards', async () => {
    const held = await holdAll(SESSION_TIMEOUT);
    const { seen, next } = await pauseWhileOthersAcquire(held);
    for (const [index, name] of Object.keys(LOCKS).entries()) {
      expect(seen[index], name).toMatchObject({ held: false, aborted: true });
      expect(next[index], name).toBeGreaterThan(held[index]!.right.fencingToken);
    }
    // A signal that was read before the pause may abort one turn later. Fencing covers this gap.
    await currentWorld().sleep(10);
    for (const { signal, process } of held) expect(signal.aborted, process.name).toBe(true);
  });
});

it('a pause shorter than the session loses nothing', async () => {
  const held = await holdAll(4 * SESSION_TIMEOUT);
  for (const { process } of held) process.pause();
  await currentWorld().sleep(SESSION_TIMEOUT);
  for (const { process } of held) process.resume();
  for (const each of held) {
    const seen = await each.process.run(() => look(each));
    expect(seen, each.process.name).toEqual({ saved: false, aborted: false, held: true });
  }
});
