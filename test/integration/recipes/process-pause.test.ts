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

type Grant = Lease | Term;

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
const LOCKS: Record<string, (client: ZkClient, next: boolean) => Promise<Grant>> = {
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
  readonly grant: Grant;
  /** The signal as it was read at the grant. */
  readonly signal: AbortSignal;
}

/** Starts a process for each lock, with a session of its own, so that reading one lease does not notify the others. */
function holdAll(sessionTimeout: number): Promise<Held[]> {
  return Promise.all(
    Object.entries(LOCKS).map(async ([name, acquire]) => {
      const process = currentWorld().process(name);
      const client = await process.client({ sessionTimeout });
      const grant = await process.run(() => acquire(client, false));
      return { process, grant, signal: grant.signal };
    }),
  );
}

/** Reads the saved signal, then the property, then `held`: the order in which a program may check. */
function readLease({ grant, signal }: Held) {
  const saved = signal.aborted;
  const aborted = grant.signal.aborted;
  return { saved, aborted, held: 'held' in grant ? grant.held : grant.active };
}

/** Acquires all locks in another process, and returns the tokens. */
async function takeAll(): Promise<bigint[]> {
  const next = currentWorld().process('next');
  const client = await next.client({ sessionTimeout: 60_000 });
  return next.run(async () => {
    const grants = Object.values(LOCKS).map((acquire) => acquire(client, true));
    return (await Promise.all(grants)).map(({ fencingToken }) => fencingToken);
  });
}

describe.each([
  [
    'stopped',
    async (held: Held[]) => {
      const firstReads = held.map(
        (each) =>
          new Promise<ReturnType<typeof readLease>>((resolve) => {
            void each.process.run(() => {
              let last = performance.now();
              setInterval(() => {
                const now = performance.now();
                if (now - last > SESSION_TIMEOUT) resolve(readLease(each));
                last = now;
              }, 1);
            });
          }),
      );
      await currentWorld().sleep(10);
      for (const { process } of held) process.pause();
      const next = await takeAll();
      for (const { process } of held) process.resume();
      return { firstReads: await Promise.all(firstReads), next };
    },
  ],
  [
    'blocked',
    async (held: Held[]) => {
      const firstReads = held.map((each) =>
        each.process.run(() => {
          each.process.block(3 * SESSION_TIMEOUT);
          return readLease(each);
        }),
      );
      const next = await takeAll();
      return { firstReads: await Promise.all(firstReads), next };
    },
  ],
])('a process that was %s for longer than its session', (_, pauseWhileOthersAcquire) => {
  it('holds nothing in the first code that runs afterwards', async () => {
    const held = await holdAll(SESSION_TIMEOUT);
    const { firstReads, next } = await pauseWhileOthersAcquire(held);
    for (const [index, name] of Object.keys(LOCKS).entries()) {
      expect(firstReads[index], name).toMatchObject({ held: false, aborted: true });
      expect(next[index], name).toBeGreaterThan(held[index]!.grant.fencingToken);
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
    const read = await each.process.run(() => readLease(each));
    expect(read, each.process.name).toEqual({ saved: false, aborted: false, held: true });
  }
});

it('a lock that lingers in a blocked process refuses tryAcquire() after 500 ms, until the process continues', async () => {
  const [holder, other] = ['holder', 'other'].map((name) => currentWorld().process(name));
  const [holding, trying] = [await holder!.client(), await other!.client()];
  await holder!.run(() => new Mutex(holding, '/lingering').withLock(() => {}, { linger: 60_000 }));
  void holder!.run(() => holder!.block(2_000));
  await other!.run(async () => {
    const started = performance.now();
    expect(await new Mutex(trying, '/lingering').tryAcquire()).toBeUndefined();
    expect(performance.now() - started).toBeCloseTo(500, -1);
    await currentWorld().sleep(2_000);
    const lease = await new Mutex(trying, '/lingering').tryAcquire();
    expect(lease?.held).toBe(true);
    await lease!.release();
  });
});
