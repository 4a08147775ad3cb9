import { setTimeout as sleep } from 'node:timers/promises';
import type { History } from './history.js';
import { connect, ROOT } from './jobs.js';
import { checkLeft, checkSettled, recordUnexpected } from './properties.js';
import { runWorkload } from './run-seed.js';
import { MAX_LINGER, type Setting, withoutNest } from './setting.js';
import type { RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of guarded writes: the callers of all processes acquire one mutex, and each holder creates znodes by
 * transactions of its lease. Some holders release the lease before the transaction has a reply.
 */

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type Lease = import('nestjs-zookeeper/recipes').Lease;
type Mutex = import('nestjs-zookeeper/recipes').Mutex;
type World = import('nestjs-zookeeper/testing').World;

const KEY = 'ledger';
/** The parent of the znodes that the holders create. */
const WRITTEN = '/written';
/** The number of callers in each process. */
const CALLERS = 3;
/** The greatest number of milliseconds between two acquires of a caller, and of most holds. */
const PAUSE = 60;
/** The probability that a holder works for up to a session timeout before it writes. */
const LATE_PROBABILITY = 0.1;
const MAX_WRITES = 3;

interface Write {
  readonly token: bigint;
  /** `maybe`: the reply was lost. `refused`: the library states that nothing was changed. */
  outcome: 'applied' | 'maybe' | 'refused';
}

/** The writes of one run, by the data of their znodes. */
export type Writes = Map<string, Write>;

/** Runs holders that write under the faults of one seed, and checks what was written. */
export const runGuardedWrites: RunSeed = (library, options) => {
  const writes: Writes = new Map();
  return runWorkload(
    {
      adjust: withoutNest,
      start: (context) => startWriters(writes, context),
      workAfterRecovery: 500,
      checkEnd: (...end) => checkWrites(writes, ...end),
    },
    library,
    options,
  );
};

async function startWriters(writes: Writes, context: JobContext): Promise<Program> {
  const client = await connect(context);
  const { acceptsWork, library, random } = context;
  const mutex = new library.recipes.Mutex(client, `${ROOT}/${KEY}`, { key: KEY });
  const loop = async () => {
    while (acceptsWork()) {
      try {
        await sleep(random.between(0, PAUSE));
        await client.ensureContainers(WRITTEN);
        await holdOnce(mutex, writes, context);
      } catch (error) {
        if (!(error instanceof library.recipes.CoordinationError)) recordUnexpected(error, context);
      }
    }
  };
  return {
    client,
    finished: Promise.all(Array.from({ length: CALLERS }, loop)).then(() => {}),
    leaveElections: async () => {},
    close: () => client.close(),
  };
}

/** Acquires the mutex, writes and releases it. */
async function holdOnce(mutex: Mutex, writes: Writes, context: JobContext): Promise<void> {
  const { history, incarnation, random, setting, world } = context;
  const options: AcquireOptions = { wait: random.pick([500, 5_000]) };
  if (random.chance(setting.lingerProbability)) options.linger = random.whole(1, MAX_LINGER);
  if (random.chance(setting.strictProbability)) options.fairness = 'strict';
  if (random.chance(0.1)) options.holdAtMost = random.whole(1, 2 * PAUSE);
  const lock = { key: KEY, path: mutex.path, mode: 'exclusive', count: 1 } as const;
  const request = history.recordRequest(incarnation, lock, options);
  const lease = await mutex.acquire(options).catch((error: unknown) => {
    history.recordRefusal(request, error);
    throw error;
  });
  const record = history.recordGrant(request, lease);
  const pending: Promise<void>[] = [];
  for (let count = random.whole(1, MAX_WRITES); count > 0; count--) {
    const most = random.chance(LATE_PROBABILITY) ? setting.sessionTimeout : PAUSE;
    await sleep(random.between(0, most));
    history.recordWork(record);
    const id = `${incarnation.name} ${Math.round(world.now)} ${lease.fencingToken} ${count}`;
    const written = write(lease, id, writes, context);
    if (random.chance(0.5)) await written;
    else pending.push(written);
  }
  history.recordReleaseStart(record);
  await lease.release();
  history.recordReleaseEnd(record);
  await Promise.all(pending);
}

export async function write(
  lease: Lease,
  data: string,
  writes: Writes,
  context: JobContext,
): Promise<void> {
  const { ConnectionError, CoordinationError, LeaseLostError } = context.library.recipes;
  const entry: Write = { token: lease.fencingToken, outcome: 'maybe' };
  writes.set(data, entry);
  try {
    const mode = 'persistent-sequential';
    await lease.transaction([{ create: `${WRITTEN}/w-`, data, mode }]);
    entry.outcome = 'applied';
  } catch (error) {
    const isUnsent = error instanceof ConnectionError && !error.maybeApplied;
    if (error instanceof LeaseLostError || isUnsent) entry.outcome = 'refused';
    if (!(error instanceof CoordinationError)) recordUnexpected(error, context);
  }
}

/** Compares the znodes that were written with the grants. */
export async function checkWrites(
  writes: Writes,
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  checkSettled(history);
  await checkLeft(world, history, workload, setting);
  const found = new Set<string>();
  for (const { data, created, path } of world.children(WRITTEN)) {
    const id = data.toString();
    const { token, outcome } = writes.get(id)!;
    const what = `${path} of the holder with the token ${token} (${id}, ${outcome})`;
    const later = history.leases.find((each) => each.token > token && each.granted < created);
    if (later) {
      const why = `${what} was created at ${created}, after the grant of ${later.token} at ${later.granted}`;
      history.recordViolation('no guarded write is applied after a later grant', why);
    }
    if (outcome === 'refused') {
      history.recordViolation('a guarded write that was refused changes nothing', what);
    }
    if (found.has(id)) history.recordViolation('a guarded write is applied once', what);
    found.add(id);
  }
  for (const [id, { outcome }] of writes) {
    if (outcome !== 'applied' || found.has(id)) continue;
    history.recordViolation('a confirmed guarded write is not lost', `${id} has no znode`);
  }
}
