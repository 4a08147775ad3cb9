import { setTimeout as sleep } from 'node:timers/promises';
import { checkCounter, changeCounter, type Change } from '../simulation/counter.js';
import { checkWrites, write, type Writes } from '../simulation/guarded-writes.js';
import type { LeaseRecord, Mode, RequestedLock } from '../simulation/history.js';
import { CacheCheck, checkCacheError, checkCaches, TREE } from '../simulation/cache.js';
import { checkBarrier, connectMember, Visits } from '../simulation/barrier.js';
import { connect, ROOT } from '../simulation/jobs.js';
import { connectApplication } from '../simulation/nest-jobs.js';
import { checkPartitions, startMember } from '../simulation/partitions.js';
import { checkEnd, checkLeft, checkSettled, recordUnexpected } from '../simulation/properties.js';
import { checkItems, connectQueues, Items } from '../simulation/queue.js';
import { Recorder, settle } from '../simulation/recorder.js';
import type { EmbeddedServerKind } from '../simulation/types.js';
import type { JobContext } from '../simulation/workload.js';
import type { Scenario, ScenarioRun } from './explore-scenario.js';
import { PROCESSES, SESSION_TIMEOUT } from './setting.js';
import { PERMITS } from '../simulation/setting.js';

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type Lease = import('nestjs-zookeeper/recipes').Lease;
type Lock = import('nestjs-zookeeper/recipes').Lock;
type SharedCount = import('nestjs-zookeeper/recipes').SharedCount;
type Semaphore = import('nestjs-zookeeper/recipes').Semaphore;
type Term = import('nestjs-zookeeper/recipes').Term;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;

/** Milliseconds for which a holder works: several messages long. */
const WORK = 3;
/** Milliseconds between two reads of a holder that only reads: less than half of the interval between two keep-alives. */
const READ_PAUSE = 50;
/** Milliseconds between two tries, after which the earlier one must not be the reason for a refusal. */
const TRY_PAUSE = 14;
/** Milliseconds of a wait that ends during the short faults. */
const SHORT_WAIT = SESSION_TIMEOUT / 10;
/** Milliseconds that are longer than every fault. */
const LONG_WORK = 2 * SESSION_TIMEOUT;
/** Milliseconds for which a holder sleeps: a revocation is noticed long before its end. */
const LONG_SLEEP = 700;
/** Milliseconds that are a little longer than a crash of the only server. */
const RESTART = 300;
/** Milliseconds after which the effects of an early fault are over. */
const LATE = 4 * SESSION_TIMEOUT;
/** The interval in milliseconds at which the holder of a long lease checks it. */
const LONG_STEP = 100;
/** A little above the rate down to which the library is safe. */
const SLOW_CLOCK = 0.77;
/** The interval in milliseconds at which a holder checks its lease. */
const WORK_STEP = 1;
/** Milliseconds between two attempts after an error. */
const RETRY_DELAY = 5;
/** The greatest number of attempts. */
const MAX_ATTEMPTS = 100;

/** The greatest priority of a candidate. */
const HIGHEST_PRIORITY = 1;
/** The number of partitions of a group. */
const PARTITIONS = 2;
/** Milliseconds after which a candidate no longer waits for its terms, such as after its session has ended. */
const MAX_TERM_WAIT = 5_000;

const STRICT = { fairness: 'strict' } as const;

/** On other servers than ZooKeeper, a fencing token takes a write, and a lost connection ends the session. */
const BOTH_RULES: readonly EmbeddedServerKind[] = ['zookeeper', 'clickhouse-keeper'];

/** What the program of one process uses. */
class Caller {
  readonly recorder: Recorder;
  /** The signal of most acquires. It never aborts. */
  readonly signal = new AbortController().signal;

  constructor(
    readonly context: JobContext,
    readonly client: ZkClient,
  ) {
    this.recorder = new Recorder(context);
  }

  get name(): string {
    return this.context.incarnation.name;
  }

  get recipes() {
    return this.context.library.recipes;
  }

  mutex(key: string): Lock {
    return new this.recipes.Mutex(this.client, `${ROOT}/${key}`, { key });
  }

  pages() {
    return new this.recipes.ReadWriteLock(this.client, `${ROOT}/pages`, { key: 'pages' });
  }

  seats(permits: number | SharedCount = PERMITS): Semaphore {
    const options = { permits, key: 'seats' };
    return new this.recipes.Semaphore(this.client, `${ROOT}/seats`, options);
  }

  /** Repeats an operation until it succeeds. */
  async untilDone(act: () => Promise<void>): Promise<void> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof this.recipes.CoordinationError)) {
          return recordUnexpected(error, this.context);
        }
      }
      await sleep(RETRY_DELAY);
    }
    const why = `${this.name} failed ${MAX_ATTEMPTS} times`;
    this.context.history.recordViolation('an operation succeeds after the faults', why);
  }

  /** Acquires a lock, works for some milliseconds and releases it, until that succeeds. */
  once(
    lock: Lock,
    mode: Mode,
    { ms = WORK, ...options }: AcquireOptions & { count?: number; ms?: number } = {},
  ): Promise<void> {
    const { signal } = this;
    const requested = this.requested(lock, mode, options.count);
    return this.untilDone(() =>
      this.recorder.withLock(lock, requested, { signal, ...options }, (record) =>
        this.work(record, [], ms),
      ),
    );
  }

  /** Acquires a lock, sleeps and releases it, until that succeeds. */
  sleepHolding(lock: Lock, ms: number, options: AcquireOptions = {}): Promise<void> {
    return this.untilDone(async () => {
      const record = await this.acquire(lock, 'exclusive', options);
      await sleep(ms);
      await this.recorder.release(record);
    });
  }

  /** Runs an operation that may fail. */
  async attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof this.recipes.CoordinationError)) recordUnexpected(error, this.context);
    }
  }

  /** Acquires a lock, works and releases it. It may fail. */
  attemptLock(lock: Lock, mode: Mode, options: AcquireOptions): Promise<void> {
    return this.attempt(async () => {
      const record = await this.acquire(lock, mode, options);
      await this.work(record);
      await this.recorder.release(record);
    });
  }

  /** Acquires permits with a lease for each, works and releases them. It may fail. */
  attemptEach(
    semaphore: Semaphore,
    options: AcquireOptions & { readonly count: number },
  ): Promise<void> {
    return this.attempt(async () => {
      const { history, incarnation } = this.context;
      const requested = this.requested(semaphore, 'permit', options.count);
      const request = history.recordRequest(incarnation, requested, options);
      const leases = await settle(semaphore.acquireEach(options), (error) =>
        history.recordRefusal(request, error),
      );
      // The first lease stands for all of them.
      const record = history.recordGrant(request, leases[0]!);
      await this.work(record);
      history.recordReleaseStart(record);
      await Promise.all(leases.map((lease) => lease.release()));
      history.recordReleaseEnd(record);
    });
  }

  /** Tries to acquire a lock without a wait. Resolves to whether it was acquired. */
  async try(lock: Lock, mode: Mode): Promise<boolean> {
    const { history, incarnation } = this.context;
    const options = { wait: 0 };
    const request = history.recordRequest(incarnation, this.requested(lock, mode), options);
    const lease = await settle(lock.tryAcquire(options), (error) =>
      history.recordRefusal(request, error),
    );
    if (!lease) {
      const { LockBusyError } = this.recipes;
      history.recordRefusal(request, new LockBusyError(`${lock.key} is taken`, { key: lock.key }));
      return false;
    }
    const record = history.recordGrant(request, lease);
    await this.work(record);
    await this.recorder.release(record);
    return true;
  }

  acquire(
    lock: Lock,
    mode: Mode,
    options: AcquireOptions & { count?: number } = {},
  ): Promise<LeaseRecord<Lease>> {
    const requested = this.requested(lock, mode, options.count);
    return this.recorder.acquire(requested, options, () => lock.acquire(options));
  }

  requested(lock: Lock, mode: Mode, count = 1): RequestedLock {
    const permits = mode === 'permit' ? PERMITS : undefined;
    return { key: lock.key, path: lock.path, mode, count, ...(permits ? { permits } : {}) };
  }

  /** Works in steps until the time is over or the lease is no longer held. */
  async work(
    record: LeaseRecord,
    others: readonly LeaseRecord[] = [],
    ms = WORK,
    step = WORK_STEP,
  ): Promise<void> {
    const { history, world } = this.context;
    const until = world.now + ms;
    while ([record, ...others].every((each) => history.recordWork(each)) && world.now < until) {
      await sleep(step);
    }
  }
}

/** The work of a process. It may return the function that ends what it has started. */
type Work = (caller: Caller) => Promise<void | (() => Promise<void>)>;

/** Returns a run in which the processes use locks, each in its own way. */
function locks(work: Readonly<Record<string, Work>>, check = checkLocks): () => ScenarioRun {
  return () => ({
    async start(context) {
      const client = await connect(context);
      const caller = new Caller(context, client);
      let leave: () => Promise<void> = async () => {};
      return {
        client,
        finished: Promise.resolve(),
        work: async () => {
          leave = (await work[caller.name]!(caller)) ?? leave;
          caller.recorder.checkListeners(caller.signal);
        },
        leaveElections: () => leave(),
        close: () => client.close(),
      };
    },
    checkEnd: check,
  });
}

const checkLocks: typeof checkEnd = async (world, history, workload, setting) => {
  checkSettled(history);
  await checkLeft(world, history, workload, setting);
};

/** Returns a run in which all processes do the same. */
const all = (work: Work, check = checkLocks) => locks({ a: work, b: work, c: work }, check);

async function twice(act: () => Promise<void>): Promise<void> {
  await act();
  await act();
}

/** Takes part in the election of a latch for some time. */
function latch(caller: Caller, resigns: boolean, options: { priority?: number } = {}) {
  const { recipes, client, name, context } = caller;
  const onError = (error: unknown) => {
    if (!(error instanceof recipes.CoordinationError)) recordUnexpected(error, context);
  };
  const path = `${ROOT}/latch`;
  const joined = new recipes.LeaderLatch(client, path, { id: name, onError, ...options });
  let terms = 0;
  joined.onChange((term: Term | undefined) => {
    if (!term) return;
    const record = caller.recorder.term('latch', term);
    if (options.priority === HIGHEST_PRIORITY) {
      term.signal.addEventListener('abort', () => {
        const isLost = (term.signal.reason as Error).cause !== undefined;
        if (isLost || joined.state === 'closed') return;
        const why = `${name} gave its leadership up`;
        context.history.recordViolation('a leader stays while no other has a higher priority', why);
      });
    }
    void caller.work(record, [], resigns ? WORK : Infinity).then(async () => {
      if (resigns && terms++ === 0 && term.active) await joined.resign().catch(onError);
    });
  });
  joined.start();
  return joined;
}

/** Each of two processes puts an item, and consumes what both have put. */
function putAndConsume(): ScenarioRun {
  const items = new Items();
  return {
    async start(context) {
      const { fifo, consume, program } = await connectQueues(items, context, Infinity);
      return {
        ...program,
        work: async () => {
          consume(fifo, 1);
          const put = (ids: readonly string[]) => fifo.putMulti(ids);
          await items.put([`${context.incarnation.name}-1`], put, context);
          await sleep(WORK);
        },
      };
    },
    checkEnd: (...end) => checkItems(items, ...end),
  };
}

/** Takes part in the election of a latch. At its end, an earlier outage must not be the error of `await()` any more. */
function candidate(priority: number): Work {
  return async (caller) => {
    const { context, name, recipes } = caller;
    const joined = latch(caller, false, { priority });
    await sleep(6 * WORK);
    return async () => {
      await joined.await({ wait: WORK }).catch((error: unknown) => {
        if (error instanceof recipes.LockTimeoutError) return;
        const why = `${name} has joined, but await() rejected: ${String(error)}`;
        context.history.recordViolation('a candidate has no error after the faults', why);
      });
      await joined.close();
    };
  };
}

/** Takes part in an election whose leaders end their terms themselves, for some terms. */
async function selector(caller: Caller, terms: number, options: { priority?: number } = {}) {
  const { recipes, client, name, context } = caller;
  const { history } = context;
  const done = new AbortController();
  let count = 0;
  const takeLeadership = async (term: Term) => {
    const lead = caller.recorder.term('selector', term);
    await caller.work(lead);
    // The work continues for a while after the end of the term. The next leader must not start before that.
    if (!term.active) await sleep(WORK);
    history.recordReleaseStart(lead);
    history.recordStop(lead);
    if (++count === terms) done.abort();
  };
  const joined = new recipes.LeaderSelector(client, `${ROOT}/selector`, takeLeadership, {
    ...{ id: name, autoRequeue: true, ...options },
    onError: (error: unknown) => {
      if (!(error instanceof recipes.CoordinationError)) recordUnexpected(error, context);
    },
  });
  joined.start();
  await sleep(MAX_TERM_WAIT, undefined, { signal: done.signal }).catch(() => {});
  await joined.close();
}

export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  mutex: {
    covers: 'two processes acquire a mutex twice each',
    kinds: BOTH_RULES,
    run: all((caller) => twice(() => caller.once(caller.mutex('till'), 'exclusive'))),
  },
  'mutex on three servers': {
    covers: 'the same, on an ensemble whose servers lag, crash and are isolated',
    servers: 3,
    run: all((caller) => caller.once(caller.mutex('till'), 'exclusive')),
  },
  'three processes': {
    covers: 'a holder, a process that waits for it, and one that comes later',
    processes: ['a', 'b', 'c'],
    kinds: BOTH_RULES,
    run: all((caller) => caller.once(caller.mutex('till'), 'exclusive')),
  },
  'long hold': {
    covers:
      'a holder that works for longer than its session can last without the servers, by a slow clock',
    clockRate: SLOW_CLOCK,
    run: locks({
      a: (caller) =>
        caller.untilDone(async () => {
          const record = await caller.acquire(caller.mutex('till'), 'exclusive');
          await caller.work(record, [], LONG_WORK, 50);
          await caller.recorder.release(record);
        }),
      b: async (caller) => {
        await sleep(WORK);
        await caller.once(caller.mutex('till'), 'exclusive');
      },
    }),
  },
  handover: {
    covers: 'three callers of a process hand a mutex over while another process waits',
    kinds: BOTH_RULES,
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        await Promise.all([1, 2, 3].map(() => caller.once(lock, 'exclusive')));
      },
      b: (caller) => caller.once(caller.mutex('till'), 'exclusive'),
    }),
  },
  'handover limit': {
    covers:
      'callers of a process that hand a mutex over without end until another process has had it',
    run: () => {
      let served = false;
      return locks({
        a: async (caller) => {
          const lock = caller.mutex('till');
          const { world } = caller.context;
          const since = world.now;
          const repeat = async () => {
            // The later handovers are like the first ones.
            if (world.now > since + 4 * WORK) world.exploring = false;
            await caller.once(lock, 'exclusive');
            if (!served && world.now < since + LONG_WORK) await repeat();
          };
          await Promise.all([repeat(), repeat()]);
        },
        b: async (caller) => {
          await sleep(WORK);
          await caller.once(caller.mutex('till'), 'exclusive');
          served = true;
        },
      })();
    },
  },
  strict: {
    covers: 'callers with fairness: strict, beside one without',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        await Promise.all([1, 2, 3].map(() => caller.once(lock, 'exclusive', STRICT)));
      },
      b: (caller) => twice(() => caller.once(caller.mutex('till'), 'exclusive')),
    }),
  },
  'strict waiters': {
    covers:
      'strict callers behind a holder of their process that only sleeps, one of which gives up, and another process',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        await Promise.all([
          caller.sleepHolding(lock, 2 * SHORT_WAIT, STRICT),
          caller.attemptLock(lock, 'exclusive', { ...STRICT, wait: SHORT_WAIT }),
          caller.once(lock, 'exclusive', STRICT),
        ]);
      },
      b: async (caller) => {
        await sleep(2 * WORK);
        await caller.once(caller.mutex('till'), 'exclusive');
      },
    }),
  },
  'strict readers': {
    covers:
      'a strict downgrade, and strict readers and writers of its process behind it, beside another writer',
    run: locks({
      a: async (caller) => {
        const { read, write } = caller.pages();
        const reader = (ms: number) => caller.once(read, 'read', { ...STRICT, ms });
        await Promise.all([
          caller.untilDone(() => downgrade(caller, STRICT)),
          caller.once(write, 'write', STRICT),
          reader(2 * WORK),
          reader(WORK),
          caller.once(write, 'write', STRICT),
        ]);
      },
      b: async (caller) => {
        await sleep(WORK);
        await caller.once(caller.pages().write, 'write');
      },
    }),
  },
  linger: {
    covers: 'a mutex that lingers: it is used again, and another process asks for it',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        await caller.once(lock, 'exclusive', { linger: 20 });
        await sleep(WORK);
        await caller.once(lock, 'exclusive', { linger: 200 });
      },
      b: async (caller) => {
        await sleep(2 * WORK);
        await caller.once(caller.mutex('till'), 'exclusive');
      },
    }),
  },
  'linger auto': {
    covers:
      'a mutex that lingers because it is used again soon, and another process that asks for it',
    run: locks({
      a: async (caller) => {
        for (let count = 0; count < 3; count++) {
          await caller.once(caller.mutex('till'), 'exclusive', { linger: 'auto' });
          await sleep(WORK);
        }
      },
      b: async (caller) => {
        await sleep(3 * WORK);
        await caller.once(caller.mutex('till'), 'exclusive');
      },
    }),
  },
  'linger over a slow network': {
    covers: 'a mutex that lingers for less time than a message takes, and tries of another process',
    latency: [20, 30],
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        for (const linger of [10, 100]) await caller.once(lock, 'exclusive', { linger });
      },
      b: async (caller) => {
        const lock = caller.mutex('till');
        for (let count = 0; count < 2; count++) {
          await caller.attemptLock(lock, 'exclusive', { wait: 0 });
          await sleep(SHORT_WAIT);
        }
        await caller.once(lock, 'exclusive');
      },
    }),
  },
  'linger mark': {
    covers: 'a handover to a caller whose lock lingers, and a late try of another process',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        const linger = LATE + 2 * LONG_SLEEP;
        await Promise.all([
          caller.once(lock, 'exclusive'),
          caller.once(lock, 'exclusive', { linger }),
        ]);
        await sleep(linger);
      },
      b: async (caller) => {
        const { world } = caller.context;
        await sleep(LONG_SLEEP);
        world.exploring = false;
        await sleep(LATE);
        await caller.untilDone(async () => {
          await caller.try(caller.mutex('till'), 'exclusive');
        });
      },
    }),
  },
  try: {
    covers: 'attempts without a wait, and waits that time out or are cancelled, beside a holder',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        await caller.once(lock, 'exclusive');
        await caller.once(lock, 'exclusive', { linger: 10 });
        for (const pause of [30, 21]) {
          await sleep(pause);
          await caller.once(lock, 'exclusive');
        }
      },
      b: async (caller) => {
        const lock = caller.mutex('till');
        for (const wait of [1, 2, 3, 4, 5]) await caller.attemptLock(lock, 'exclusive', { wait });
        await caller.attemptLock(lock, 'exclusive', { signal: AbortSignal.timeout(2) });
        await caller.untilDone(async () => {
          for (let count = 0; count < 7; count++) {
            await caller.try(lock, 'exclusive');
            await sleep(TRY_PAUSE);
          }
        });
      },
    }),
  },
  timeout: {
    covers:
      'a try, a wait that times out and waits that are cancelled, behind a holder that only sleeps, and its next caller',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        const hold = caller.sleepHolding(lock, LONG_SLEEP);
        await Promise.all([hold, sleep(WORK).then(() => caller.once(lock, 'exclusive'))]);
      },
      b: async (caller) => {
        await sleep(WORK);
        const lock = caller.mutex('till');
        await caller.untilDone(async () => {
          await caller.try(lock, 'exclusive');
        });
        await caller.attemptLock(lock, 'exclusive', { wait: 20 });
        // The second of these is cancelled while the client has no connection, if it was cut off before the first one.
        for (const pause of [0, SESSION_TIMEOUT / 2]) {
          await sleep(pause);
          const signal = AbortSignal.timeout(20);
          caller.context.history.recordAbortTime(signal, 20);
          await caller.attemptLock(lock, 'exclusive', { signal });
        }
      },
    }),
  },
  'late reply to a create': {
    covers: 'callers of a free lock that give up before the reply to their create',
    processes: ['a'],
    run: all(async (caller) => {
      for (const wait of [1, 2, 3]) {
        await caller.attemptLock(caller.mutex('till'), 'exclusive', { wait });
        // Otherwise the next caller would use the znode.
        await sleep(WORK);
      }
    }),
  },
  'short retries': {
    covers:
      'an outage that is longer than the retry policy, and later a request for revocation of the holder',
    maxRetries: 1,
    run: locks({
      a: (caller) =>
        caller.untilDone(async () => {
          const record = await caller.acquire(caller.mutex('till'), 'exclusive');
          const revoked = caller.recorder.followRevocation(record);
          await Promise.race([revoked, caller.work(record, [], 2 * LATE, LONG_STEP)]);
          await caller.recorder.release(record);
        }),
      b: async (caller) => {
        await sleep(WORK);
        const lock = caller.mutex('till');
        const wait = caller.once(lock, 'exclusive');
        await sleep(LONG_SLEEP);
        caller.context.world.exploring = false;
        await sleep(LATE);
        await caller.context.history.recordRevocation(lock.key, lock.revoke());
        await wait;
      },
    }),
  },
  'policy standard': {
    covers: 'a lost connection, which ends every lease under this policy',
    policy: 'standard',
    run: all((caller) => {
      caller.recorder.watchSuspension(caller.client);
      return caller.once(caller.mutex('till'), 'exclusive');
    }),
  },
  'reading holder': {
    covers: 'a holder that only reads, on a server that loses the others',
    servers: 3,
    run: locks({
      a: (caller) =>
        caller.untilDone(async () => {
          const record = await caller.acquire(caller.mutex('till'), 'exclusive');
          const { world } = caller.context;
          const since = world.now;
          while (record.lease.held && world.now < since + LONG_WORK) {
            // The later reads are like the first ones.
            if (world.now > since + 4 * READ_PAUSE) world.exploring = false;
            await caller.client.exists(ROOT);
            await caller.work(record, [], 0);
            await sleep(READ_PAUSE);
          }
          await caller.recorder.release(record);
        }),
      b: async (caller) => {
        await sleep(WORK);
        await caller.once(caller.mutex('till'), 'exclusive');
      },
    }),
  },
  'read/write lock': {
    covers: 'readers that share a lock, and a writer',
    kinds: BOTH_RULES,
    run: locks({
      a: async (caller) => {
        const { read, write } = caller.pages();
        await Promise.all([caller.once(read, 'read'), caller.once(read, 'read')]);
        await caller.once(write, 'write');
      },
      b: async (caller) => {
        const { read, write } = caller.pages();
        await caller.once(write, 'write');
        await caller.once(read, 'read');
      },
    }),
  },
  'reader timeout': {
    covers: 'two readers behind a writer that only sleeps, one of which waits for a short time',
    run: locks({
      a: (caller) =>
        caller.untilDone(async () => {
          const { world } = caller.context;
          // Before the hold, the messages are like those of the scenario `read/write lock`.
          world.exploring = false;
          const record = await caller.acquire(caller.pages().write, 'write');
          world.exploring = true;
          await sleep(LONG_SLEEP);
          await caller.recorder.release(record);
        }),
      b: async (caller) => {
        const { read } = caller.pages();
        await sleep(6 * WORK);
        await Promise.all([
          caller.attemptLock(read, 'read', { ...STRICT, wait: SHORT_WAIT }),
          sleep(WORK).then(() => caller.once(read, 'read', STRICT)),
        ]);
      },
    }),
  },
  'late reader': {
    covers: 'a reader that comes while another reader of its process holds and a writer waits',
    run: locks({
      a: async (caller) => {
        const { read } = caller.pages();
        await Promise.all([
          caller.once(read, 'read', { ms: SHORT_WAIT }),
          sleep(SHORT_WAIT / 2).then(() => caller.once(read, 'read')),
        ]);
      },
      b: async (caller) => {
        await sleep(2 * WORK);
        await caller.once(caller.pages().write, 'write');
      },
    }),
  },
  downgrade: {
    covers: 'a write lease that becomes a read lease while a reader and a writer wait',
    run: locks({
      a: (caller) => caller.untilDone(() => downgrade(caller)),
      b: async (caller) => {
        const { read, write } = caller.pages();
        await Promise.all([caller.once(read, 'read'), caller.once(write, 'write')]);
      },
    }),
  },
  'downgrade of a limited hold': {
    covers: 'a write lease that may end during its downgrade, and the next writer of the process',
    run: locks({
      a: async (caller) => {
        const limited = caller.untilDone(() => downgrade(caller, { holdAtMost: 2 * WORK }));
        await Promise.all([limited, caller.once(caller.pages().write, 'write')]);
      },
      b: (caller) => caller.once(caller.pages().read, 'read'),
    }),
  },
  listeners: {
    covers:
      'a loss, a request for revocation or a change of the connection, whose listeners release, cancel and acquire at once',
    run: locks({
      a: async (caller) => {
        const { client, recorder } = caller;
        const [till, safe] = [caller.mutex('till'), caller.mutex('safe')];
        const cancelled = new AbortController();
        const started: Promise<void>[] = [];
        const attempt = (lock: Lock, wait: number) =>
          void started.push(caller.attemptLock(lock, 'exclusive', { wait }));
        const unsubscribe = client.onState(() => attempt(safe, WORK));
        const held = caller.attempt(async () => {
          const record = await caller.acquire(till, 'exclusive');
          const onEnd = () => {
            cancelled.abort();
            started.push(recorder.release(record));
            attempt(till, SHORT_WAIT);
          };
          record.lease.signal.addEventListener('abort', onEnd, { once: true });
          void recorder.followRevocation(record).then(onEnd);
          await caller.work(record, [], LONG_SLEEP, READ_PAUSE);
          await recorder.release(record);
        });
        await sleep(WORK);
        const { signal } = cancelled;
        await Promise.all([held, caller.attemptLock(till, 'exclusive', { signal })]);
        unsubscribe();
        for (const each of started) await each;
      },
      b: async (caller) => {
        await sleep(2 * WORK);
        await caller.once(caller.mutex('till'), 'exclusive');
      },
    }),
  },
  semaphore: {
    covers: 'two and one of three permits',
    run: locks({
      a: (caller) => caller.once(caller.seats(), 'permit', { count: 2 }),
      b: async (caller) => {
        const lock = caller.seats();
        await Promise.all([caller.once(lock, 'permit', { count: 2 }), caller.once(lock, 'permit')]);
      },
    }),
  },
  'raised permits': {
    covers: 'a caller that waits while all permits are taken, whose number the holder raises',
    run: () => {
      let raised = Infinity;
      let served = false;
      const sizeOf = ({ client, recipes }: Caller) =>
        new recipes.SharedCount(client, `${ROOT}/seats-size`);
      return locks({
        a: async (caller) => {
          const size = sizeOf(caller);
          const { world } = caller.context;
          await caller.untilDone(() => size.set(PERMITS - 1));
          await caller.untilDone(async () => {
            const seats = caller.seats(size);
            const record = await caller.acquire(seats, 'permit', { count: PERMITS - 1 });
            await sleep(8 * WORK);
            await caller.untilDone(() => size.set(PERMITS));
            raised = world.now;
            while (record.lease.held && !served && world.now < raised + 3 * LATE) {
              await sleep(WORK);
              // Later messages are those of a session without work.
              if (world.now > raised + 4 * WORK) world.exploring = false;
            }
            await caller.recorder.release(record);
          });
        },
        b: async (caller) => {
          const { context, recipes, name } = caller;
          await sleep(4 * WORK);
          // If a fails before it has set the number, b fails.
          await caller.attempt(async () => {
            try {
              const seats = caller.seats(sizeOf(caller));
              const record = await caller.acquire(seats, 'permit', { wait: 2 * LATE });
              served = true;
              await caller.work(record);
              await caller.recorder.release(record);
            } catch (error) {
              if (error instanceof recipes.LockTimeoutError && context.world.now > raised + LATE) {
                const why = `${name} waited for a permit after their number had been raised`;
                context.history.recordViolation('raised permits are granted to waiters', why);
              }
              throw error;
            }
          });
        },
      })();
    },
  },
  acquireEach: {
    covers: 'two of three permits with a lease for each, for which a caller waits for a short time',
    processes: ['a'],
    run: all((caller) => caller.attemptEach(caller.seats(), { count: 2, wait: SHORT_WAIT })),
  },
  'suspended semaphore': {
    covers: 'requests for two of three permits, which start again after a lost connection',
    policy: 'standard',
    run: locks({
      a: async (caller) => {
        const seats = caller.seats();
        const { world } = caller.context;
        const hold = caller.untilDone(async () => {
          // Before and after the hold, the messages are like those of the scenario `semaphore`.
          world.exploring = false;
          const record = await caller.acquire(seats, 'permit', { count: 2 });
          world.exploring = true;
          await sleep(SHORT_WAIT);
          world.exploring = false;
          await caller.recorder.release(record);
        });
        const strict = { ...STRICT, count: 2 };
        await Promise.all([hold, sleep(8 * WORK).then(() => caller.once(seats, 'permit', strict))]);
      },
      b: async (caller) => {
        await sleep(6 * WORK);
        await caller.once(caller.seats(), 'permit', { count: 2 });
      },
    }),
  },
  'multi-lock': {
    covers: 'two locks as one, in both orders, beside a holder of one of them',
    run: locks({
      a: (caller) => multiLock(caller, ['left', 'right']),
      b: async (caller) => {
        await multiLock(caller, ['right', 'left']);
        await caller.once(caller.mutex('right'), 'exclusive');
      },
    }),
  },
  'multi-lock timeout': {
    covers:
      'a multi-lock that times out while it waits for its second lock, and the next caller for the first one',
    run: locks({
      a: async (caller) => {
        const left = caller.mutex('left');
        const lefts = async () => {
          await caller.sleepHolding(left, 0.8 * SHORT_WAIT);
          await sleep(SHORT_WAIT);
          await caller.once(left, 'exclusive');
        };
        await Promise.all([lefts(), caller.sleepHolding(caller.mutex('right'), LONG_SLEEP)]);
      },
      b: async (caller) => {
        await sleep(2 * WORK);
        await caller.attempt(() => lockBoth(caller, ['left', 'right'], { wait: SHORT_WAIT }));
      },
    }),
  },
  'multi-lock inside of a lock': {
    covers:
      'a multi-lock that enters a lock of its caller again and waits for its other lock, beside callers for both',
    run: locks({
      a: async (caller) => {
        const left = caller.mutex('left');
        const nested = caller.untilDone(() =>
          caller.recorder.withLock(left, caller.requested(left, 'exclusive'), {}, (outer) => {
            // From here on, the lease of the multi-lock stands for both.
            caller.context.history.recordReleaseStart(outer);
            return lockBoth(caller, ['left', 'right']);
          }),
        );
        await Promise.all([nested, sleep(WORK_STEP).then(() => caller.once(left, 'exclusive'))]);
      },
      b: (caller) => caller.once(caller.mutex('right'), 'exclusive'),
    }),
  },
  'nested locks': {
    covers:
      'a holder whose wait for a second lock times out, and the later wait of the holder of that lock for the first one',
    run: locks({
      a: async (caller) => {
        const first = caller.mutex('first');
        const second = caller.mutex('second');
        const outer = caller.untilDone(() =>
          caller.recorder.withLock(
            first,
            caller.requested(first, 'exclusive'),
            {},
            async (record) => {
              await sleep(WORK);
              await caller.attemptLock(second, 'exclusive', { wait: LONG_SLEEP });
              await caller.work(record, [], 2 * LATE, LONG_STEP);
            },
          ),
        );
        // It waits behind the same znode, and holds nothing.
        await Promise.all([outer, sleep(2 * WORK).then(() => caller.once(second, 'exclusive'))]);
      },
      b: (caller) =>
        caller.untilDone(() => {
          const second = caller.mutex('second');
          const requested = caller.requested(second, 'exclusive');
          return caller.recorder.withLock(second, requested, {}, async () => {
            await sleep(LONG_SLEEP + 4 * WORK);
            caller.context.world.exploring = false;
            await sleep(LATE);
            await caller.attemptLock(caller.mutex('first'), 'exclusive', { wait: LONG_WORK });
          });
        }),
    }),
  },
  'requests of one turn': {
    covers:
      'a client that releases two locks and acquires a third one in one turn of the event loop',
    run: locks({
      a: (caller) => caller.once(caller.mutex('third'), 'exclusive'),
      b: async (caller) => {
        await sleep(4 * WORK);
        await caller.untilDone(async () => {
          const first = await caller.acquire(caller.mutex('first'), 'exclusive');
          const second = await caller.acquire(caller.mutex('second'), 'exclusive');
          await Promise.all([
            caller.recorder.release(first),
            caller.recorder.release(second),
            caller.once(caller.mutex('third'), 'exclusive'),
          ]);
        });
      },
    }),
  },
  latch: {
    covers: 'a leader that resigns, and the candidate after it',
    run: locks(
      {
        a: async (caller) => {
          const joined = latch(caller, true);
          await sleep(6 * WORK);
          return () => joined.close();
        },
        b: async (caller) => {
          const joined = latch(caller, false);
          await sleep(6 * WORK);
          return () => joined.close();
        },
      },
      checkEnd,
    ),
  },
  'latch few retries': {
    covers:
      'candidates with priorities whose retry policy gives up in an outage that their sessions survive',
    maxRetries: 3,
    run: locks({ a: candidate(HIGHEST_PRIORITY), b: candidate(0) }, checkEnd),
  },
  selector: {
    covers: 'terms that end by themselves, and a candidate with a higher priority',
    run: locks({
      a: (caller) => selector(caller, 1, { priority: 0 }),
      b: async (caller) => {
        await sleep(WORK_STEP);
        await selector(caller, 2, { priority: 1 });
      },
    }),
  },
  're-entry': {
    covers: 'a holder that acquires its lock again, and an entry that outlives its function',
    run: all((caller) => {
      const lock = caller.mutex('till');
      return caller.untilDone(async () => {
        const { entry, record } = await caller.recorder.enter(
          lock,
          caller.requested(lock, 'exclusive'),
          {},
        );
        const { history } = caller.context;
        try {
          await entry.run(async () => {
            // A pause may end here, with this as the first code that runs.
            await sleep(WORK_STEP);
            await lock.withLock((again) => {
              const what = `${caller.name} re-entered ${lock.key}`;
              if (!again.held) {
                history.recordViolation(
                  'a lost lease cannot be re-entered',
                  `${what} after its loss`,
                );
              }
              if (again.fencingToken !== record.token) {
                const why = `${what} with another token`;
                history.recordViolation('a re-entry has the token of its outer lease', why);
              }
            });
            await caller.work(record);
          });
        } finally {
          history.recordReleaseStart(record);
          await entry.release();
          history.recordReleaseEnd(record);
        }
      });
    }),
  },
  holdAtLeast: {
    covers:
      'a lock that is kept after its release, and one that is taken away and released when the next caller has it',
    run: locks({
      a: async (caller) => {
        const lock = caller.mutex('till');
        await caller.once(lock, 'exclusive', { holdAtLeast: 4 * WORK });
        await caller.untilDone(async () => {
          const lost = await caller.acquire(lock, 'exclusive', { holdAtMost: WORK });
          const next = caller.acquire(lock, 'exclusive');
          next.catch(() => {});
          await caller.work(lost, [], 3 * WORK);
          const record = await next;
          await caller.recorder.release(lost);
          await caller.work(record);
          await caller.recorder.release(record);
        });
      },
      b: (caller) => twice(() => caller.once(caller.mutex('till'), 'exclusive')),
    }),
  },
  'guarded write': {
    covers: 'znodes that a holder creates, one of them while it releases its lock',
    run: () => {
      const writes: Writes = new Map();
      const { start } = all(async (caller) => {
        const lock = caller.mutex('ledger');
        await caller.untilDone(async () => {
          await caller.client.ensureContainers('/written');
          const record = await caller.acquire(lock, 'exclusive');
          const put = (what: string) =>
            write(record.lease, `${caller.name} ${record.token} ${what}`, writes, caller.context);
          await put('first');
          await caller.work(record);
          // The other process may have been granted the lock, because an operator has deleted the znode of this one.
          await put('second');
          const last = put('last');
          await caller.recorder.release(record);
          await last;
        });
      })();
      return { start, checkEnd: (...end) => checkWrites(writes, ...end) };
    },
  },
  'guarded write of a limited hold': {
    covers: 'writes under way when `holdAtMost` ends the lease, and the next caller of the process',
    processes: ['a'],
    run: () => {
      const writes: Writes = new Map();
      const { start } = all(async (caller) => {
        const lock = caller.mutex('ledger');
        await caller.client.ensureContainers('/written');
        const limited = caller.untilDone(async () => {
          const record = await caller.acquire(lock, 'exclusive', { holdAtMost: WORK });
          const puts: Promise<void>[] = [];
          while (record.lease.held) {
            const data = `${caller.name} ${record.token} ${puts.length}`;
            puts.push(write(record.lease, data, writes, caller.context));
            await sleep(WORK_STEP);
          }
          await Promise.all(puts);
          await caller.recorder.release(record);
        });
        await Promise.all([limited, caller.once(lock, 'exclusive')]);
      })();
      return { start, checkEnd: (...end) => checkWrites(writes, ...end) };
    },
  },
  partitions: {
    covers: 'two members of a group, one of which leaves it and joins it again',
    run: () => ({
      async start(context) {
        const { name } = context.incarnation;
        const { program, join } = await startMember(context, name, PARTITIONS, () => 5);
        return {
          ...program,
          work: async () => {
            join();
            await sleep(20);
            if (name === 'a') return;
            await program.leaveElections();
            await sleep(WORK);
            join();
          },
        };
      },
      checkEnd: checkPartitions(PARTITIONS),
    }),
  },
  queue: {
    covers: 'items that two processes put, consume and hand back after a failure',
    run: putAndConsume,
  },
  'queue on three servers': {
    covers: 'the same, on an ensemble whose servers lag, crash and are isolated',
    servers: 3,
    run: putAndConsume,
  },
  'consumer that closes': {
    covers:
      'a consumer that closes while its handler fails, and another one that handles the item, under the policy standard',
    policy: 'standard',
    run: () => {
      const items = new Items();
      return {
        async start(context) {
          const { fifo, consume, program } = await connectQueues(items, context, Infinity);
          const { incarnation, world } = context;
          return {
            ...program,
            work: async () => {
              if (incarnation.name === 'a') {
                // The scenario 'queue' explores the put.
                world.exploring = false;
                await items.put(['a-1'], (ids) => fifo.putMulti(ids), context);
                world.exploring = true;
                consume(fifo, 1, () => {
                  void fifo.close();
                  return { work: 2 * WORK, fails: true };
                });
              } else {
                await sleep(4 * WORK);
                consume(fifo, 1, () => ({ work: WORK, fails: false }));
              }
              await sleep(8 * WORK);
            },
          };
        },
        checkEnd: (world, history, workload, setting) =>
          // Without b, nobody handles the item.
          workload.current('b')
            ? checkItems(items, world, history, workload, setting)
            : checkLocks(world, history, workload, setting),
      };
    },
  },
  counter: {
    covers: 'increments of one counter',
    run: () => {
      const changes: Change[] = [];
      const { start } = all(async (caller) => {
        const { DistributedAtomicLong } = caller.context.library.coordination;
        const path = `${ROOT}/counter`;
        const lockPath = `${ROOT}/counter-lock`;
        const counter = new DistributedAtomicLong(caller.client, path, { lockPath });
        let latest = 0n;
        for (const kind of ['increment', 'add', 'compareAndSet'] as const) {
          latest = (await changeCounter(counter, kind, latest, changes, caller.context)) ?? latest;
        }
      })();
      return { start, checkEnd: (...end) => checkCounter(changes, ...end) };
    },
  },
  'counter on three servers': {
    covers: 'a compareAndSet of the value that another process has just written',
    servers: 3,
    run: () => {
      const changes: Change[] = [];
      let latest = 0n;
      const change = async (caller: Caller, kind: 'increment' | 'compareAndSet') => {
        const { DistributedAtomicLong } = caller.context.library.coordination;
        const counter = new DistributedAtomicLong(caller.client, `${ROOT}/counter`);
        latest = (await changeCounter(counter, kind, latest, changes, caller.context)) ?? latest;
      };
      const { start } = locks({
        a: (caller) => change(caller, 'increment'),
        b: async (caller) => {
          await sleep(4 * WORK);
          await change(caller, 'compareAndSet');
        },
      })();
      return { start, checkEnd: (...end) => checkCounter(changes, ...end) };
    },
  },
  cache: {
    covers: 'a subtree that one process changes and another one copies',
    run: () => ({
      async start(context) {
        const client = await connect(context);
        const checks: CacheCheck[] = [];
        return {
          ...{ client, checks, finished: Promise.resolve() },
          work: async () => {
            if (context.incarnation.name === 'b') {
              checks.push(new CacheCheck(client, context, false));
              return sleep(20);
            }
            await client.ensureContainers(ROOT);
            for (const write of treeWrites(client)) {
              await write().catch((error: unknown) => checkCacheError(error, context));
              await sleep(WORK_STEP);
            }
          },
          leaveElections: async () => {
            await Promise.all(checks.map(({ cache }) => cache.close()));
          },
          close: () => client.close(),
        };
      },
      checkEnd: checkCaches,
    }),
  },
  'barrier set again': {
    covers: 'a barrier that one process removes, and that another one sets again',
    run: () => {
      let isSetAgain = false;
      const path = `${ROOT}/barrier`;
      const barrierOf = ({ client, context }: Caller) =>
        new context.library.coordination.DistributedBarrier(client, path);
      const { start } = locks({
        a: async (caller) => {
          await sleep(2 * WORK);
          await caller.attempt(() => barrierOf(caller).removeBarrier());
        },
        b: async (caller) => {
          const barrier = barrierOf(caller);
          await caller.untilDone(() => barrier.setBarrier());
          await caller.attempt(async () => {
            await barrier.waitOnBarrier({ wait: LONG_WORK });
            await caller.untilDone(() => barrier.setBarrier());
            isSetAgain = true;
          });
        },
      })();
      return {
        start,
        checkEnd: async (world, history, workload, setting) => {
          if (isSetAgain && world.children(ROOT).length === 0) {
            const why = 'it was removed twice, by one call of removeBarrier()';
            history.recordViolation('a barrier that was set again remains', why);
          }
          await checkLocks(world, history, workload, setting);
        },
      };
    },
  },
  barrier: {
    covers: 'two members that enter and leave a double barrier',
    run: () => {
      const visits = new Visits();
      return {
        async start(context) {
          const { program, visit } = await connectMember(visits, context);
          return { ...program, work: () => visit(PROCESSES.length) };
        },
        checkEnd: (...end) => checkBarrier(visits, ...end),
      };
    },
  },
  'late member': {
    covers:
      'a member that waits at a double barrier for too short a time, and then until another one comes',
    run: () => {
      const visits = new Visits();
      return {
        async start(context) {
          const { program, visit } = await connectMember(visits, context);
          const { incarnation, world } = context;
          const enter = (enterWait: number) =>
            visit(PROCESSES.length, { enterWait, stay: WORK, leaveWait: LONG_WORK });
          return {
            ...program,
            work: async () => {
              if (incarnation.name === 'a') await enter(SESSION_TIMEOUT);
              else await sleep(LATE);
              // The scenario 'barrier' explores the rest.
              world.exploring = false;
              await enter(3 * LONG_WORK);
            },
          };
        },
        checkEnd: (...end) => checkBarrier(visits, ...end),
      };
    },
  },
  'failed leave': {
    covers: 'a member whose leave() fails, and which enters again while the other one is inside',
    // The retry policy gives up before the only server runs again.
    maxRetries: 1,
    run: () => {
      const visits = new Visits();
      return {
        async start(context) {
          const { program, visit } = await connectMember(visits, context);
          const { incarnation, world } = context;
          return {
            ...program,
            work: async () => {
              world.exploring = false;
              const stay = incarnation.name === 'a' ? WORK : LONG_SLEEP;
              const waits = { enterWait: 2 * LONG_WORK, leaveWait: LONG_WORK };
              const onEntered = () => (world.exploring = true);
              await visit(PROCESSES.length, { ...waits, stay, onEntered });
              world.exploring = false;
              await sleep(RESTART);
              await visit(PROCESSES.length, { ...waits, stay: WORK });
            },
          };
        },
        checkEnd: (...end) => checkBarrier(visits, ...end),
      };
    },
  },
  application: {
    covers: 'methods with decorators in two Nest applications, one of which shuts down',
    nest: true,
    run: () => ({
      async start(context) {
        const { client, jobs, close } = await connectApplication(context);
        const { incarnation, history, library, world } = context;
        const attempt = async (act: () => Promise<void>) => {
          await act().catch((error: unknown) => {
            if (!(error instanceof library.nest.CoordinationError))
              recordUnexpected(error, context);
          });
        };
        return {
          ...{ client, finished: Promise.resolve(), leaveElections: close, close },
          work: async () => {
            const calls = Promise.all([attempt(() => jobs.order('1')), attempt(() => jobs.lead())]);
            if (incarnation.name === 'b') {
              await sleep(6 * WORK);
              incarnation.shutdownStarted = world.now;
              await close();
            } else {
              await attempt(() => jobs.order('1'));
              // It leads by now, and may have lost its leadership before the second call.
              await twice(() => attempt(() => jobs.lead()));
            }
            await calls;
            history.operations++;
          },
        };
      },
      checkEnd: checkLocks,
    }),
  },
};

/** Writes of a subtree: some follow each other so soon that a cache misses the state between them. */
function treeWrites(client: ZkClient): (() => Promise<unknown>)[] {
  return [
    () => client.create(TREE, 'root'),
    () => client.create(`${TREE}/a`, 'first'),
    () => client.set(`${TREE}/a`, 'second'),
    () => client.create(`${TREE}/a/b`, 'child', { mode: 'ephemeral' }),
    async () =>
      (await client.session()).transaction([
        { delete: `${TREE}/a/b` },
        { create: `${TREE}/a/b`, data: 'another child' },
      ]),
    () => client.delete(`${TREE}/a/b`),
    () => client.set(`${TREE}/a`, 'third'),
    // It stays, so that a cache that misses it differs from the tree at the end.
    () => client.create(`${TREE}/a/c`, 'last child'),
  ];
}

/** Acquires the write lock, works, downgrades it to the read lock, and works again. */
async function downgrade(caller: Caller, options: AcquireOptions = {}): Promise<void> {
  const lock = caller.pages();
  const write = await caller.acquire(lock.write, 'write', options);
  await caller.work(write);
  const requested = caller.requested(lock.read, 'read');
  const read = await caller.recorder.downgrade(lock, write, requested);
  if (!read) return;
  await caller.work(read);
  await caller.recorder.release(read);
}

function multiLock(caller: Caller, keys: readonly string[]): Promise<void> {
  return caller.untilDone(() => lockBoth(caller, keys));
}

function lockBoth(
  caller: Caller,
  keys: readonly string[],
  options: AcquireOptions = { signal: caller.signal },
): Promise<void> {
  const parts = keys.map((key) => caller.mutex(key));
  const multi = new caller.recipes.MultiLock(parts);
  const requested = parts.map((lock) => caller.requested(lock, 'exclusive'));
  return caller.recorder.withMultiLock(multi, requested, options, ([first, ...rest]) =>
    caller.work(first!, rest),
  );
}
