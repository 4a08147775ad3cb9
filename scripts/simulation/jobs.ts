import { setTimeout as sleep } from 'node:timers/promises';
import { setMaxListeners } from 'node:events';
import type { LeaseRecord, Mode, RequestedLock } from './history.js';
import { recordAcquire, Recorder, settle } from './recorder.js';
import type { JobContext, Program } from './workload.js';
import { type JobName, MAX_HOLD_AT_LEAST, MAX_LINGER, PERMITS, replyTime } from './setting.js';

/*
 * The jobs that processes without Nest run. They are in one file although it is long, because they share the functions
 * that record requests and leases in the history.
 */

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type Lease = import('nestjs-zookeeper/recipes').Lease;
type LeaderLatch = import('nestjs-zookeeper/recipes').LeaderLatch;
type Lock = import('nestjs-zookeeper/recipes').Lock;
type ReadWriteLock = import('nestjs-zookeeper/recipes').ReadWriteLock;
type Term = import('nestjs-zookeeper/recipes').Term;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;

/** The parent of all locks of the workload. */
export const ROOT = '/simulated';

/** The interval in milliseconds at which a holder checks its lease while it works. */
const WORK_STEP = 7;
/** The average number of milliseconds between two reads of a process that only reads. */
const READ_PAUSE = 20;
/** The minimum and maximum number of callers in a burst. */
const BURST_CALLERS = [10, 80] as const;

/** Starts the jobs of a process that uses the recipes directly. */
export async function startJobs(context: JobContext): Promise<Program> {
  const client = await connect(context);
  const jobs = new Jobs(context, client);
  return jobs.start();
}

/** Starts a process that leads an election for as long as it can, and only reads meanwhile. */
export async function startReader(context: JobContext): Promise<Program> {
  const client = await connect(context);
  return new Jobs(context, client).startReader();
}

/** Keeps the session of an incarnation up to date. To be called in the process of the client. */
export function followSession(
  client: ZkClient,
  { history, incarnation, setting }: JobContext,
): void {
  const record = (session: string | undefined) =>
    // It waits until the timeout of the last session is over, a quarter of it after the loss by a clock of rate 1.
    history.recordSession(incarnation, session, setting.sessionTimeout / 2 + replyTime(setting));
  record(client.sessionId);
  client.onState(({ state, sessionId }) => {
    if (state === 'CONNECTED' || state === 'RECONNECTED') record(sessionId);
  });
}

/**
 * Connects a client, and follows its session. Retries, because a process may start while no server is available. To be
 * called in the process of the client.
 */
export async function connect(context: JobContext): Promise<ZkClient> {
  const { process, setting, library, acceptsWork } = context;
  for (;;) {
    try {
      const client = await process.client({
        sessionTimeout: setting.sessionTimeout,
        connectTimeout: setting.sessionTimeout / 4,
        policy: setting.policy,
        retry: { type: 'fixed', delay: 50, maxRetries: setting.maxRetries ?? 40 },
      });
      followSession(client, context);
      return client;
    } catch (error) {
      if (!(error instanceof library.recipes.ConnectionError) || !acceptsWork()) throw error;
    }
  }
}

class Jobs {
  /** The signal of most acquires. It never aborts. When all acquires have settled, it must have no listeners. */
  readonly #signal = new AbortController().signal;
  readonly #recorder: Recorder;
  readonly #path = (name: string) => `${ROOT}/${name}`;

  constructor(
    private readonly context: JobContext,
    private readonly client: ZkClient,
  ) {
    setMaxListeners(0, this.#signal);
    this.#recorder = new Recorder(context);
  }

  start(): Program {
    const { incarnation, setting } = this.context;
    const { recipes } = this.context.library;
    const mutex = (key: string) => new recipes.Mutex(this.client, this.#path(key), { key });
    const pages = new recipes.ReadWriteLock(this.client, this.#path('pages'), { key: 'pages' });
    const nonReentrant = new recipes.NonReentrantMutex(this.client, this.#path('door'), {
      key: 'door',
    });
    const seats = new recipes.Semaphore(this.client, this.#path('seats'), {
      permits: PERMITS,
      key: 'seats',
    });
    const multiLockParts = [mutex('left'), pages.write, mutex('right')];
    const jobs: Record<JobName, () => Promise<void>[]> = {
      mutex: () => this.#loops(2, () => this.#acquireOnce(mutex('till'), 'exclusive')),
      'long hold': () => this.#loops(1, () => this.#longHold(mutex('vault')), 100),
      'uncontended mutex': () =>
        this.#loops(1, () => this.#acquireOnce(mutex(`own-${incarnation.name}`), 'exclusive')),
      'rarely used mutex': () =>
        this.#loops(1, () => this.#acquireOnce(mutex('rare'), 'exclusive'), 600),
      'non-reentrant mutex': () =>
        this.#loops(1, () => this.#acquireOnce(nonReentrant, 'exclusive')),
      'read/write lock': () => [
        ...this.#loops(2, () => this.#acquireOnce(pages.read, 'read')),
        ...this.#loops(1, () => this.#acquireOnce(pages.write, 'write'), 150),
      ],
      semaphore: () => this.#loops(2, () => this.#acquireOnce(seats, 'permit')),
      downgrade: () => this.#loops(1, () => this.#downgrade(pages), 300),
      'multi-lock': () => this.#loops(1, () => this.#multiLock(multiLockParts), 200),
      'nested locks': () =>
        this.#loops(1, () => this.#nestedLocks(mutex('outer'), mutex('inner')), 150),
      're-entry': () => this.#loops(1, () => this.#reenter(mutex('till')), 300),
      'late use of an entry': () => this.#loops(1, () => this.#useEntryLate(mutex('till')), 300),
      'burst on a mutex': () => this.#loops(1, () => this.#burst(mutex('hot'), 'exclusive'), 60),
      'burst on a semaphore': () => this.#loops(1, () => this.#burst(seats, 'permit'), 400),
      'burst on a read lock': () => this.#loops(1, () => this.#burst(pages.read, 'read'), 200),
      'raised permits': () => this.#loops(1, () => this.#raisePermits(), 300),
      'participants and revocation': () => this.#loops(1, () => this.#listAndRevoke(mutex), 300),
    };
    const loops = this.context.setting.jobs.flatMap((name) => jobs[name]());
    if (setting.policy === 'standard') this.#recorder.watchSuspension(this.client);
    const elections = this.#startElections();
    return {
      client: this.client,
      finished: Promise.all(loops).then(() => this.#recorder.checkListeners(this.#signal)),
      leaveElections: async () => void (await Promise.all(elections.map((each) => each.close()))),
      close: () => this.client.close(),
    };
  }

  startReader(): Program {
    const loops = this.#loops(1, async () => void (await this.client.exists(ROOT)), READ_PAUSE);
    const latch = this.#startLatch((lead) => this.#work(lead, Infinity));
    return {
      client: this.client,
      finished: Promise.all(loops).then(() => {}),
      leaveElections: () => latch.close(),
      close: () => this.client.close(),
    };
  }

  /**
   * Runs an operation in several loops at the same time.
   *
   * @param pause the average number of milliseconds between two operations of a loop
   */
  #loops(count: number, attempt: () => Promise<void>, pause = 60): Promise<void>[] {
    return Array.from({ length: count }, () => this.#loop(attempt, pause));
  }

  async #loop(attempt: () => Promise<void>, pause: number): Promise<void> {
    const { acceptsWork, random } = this.context;
    await sleep(random.between(0, pause));
    while (acceptsWork()) {
      try {
        await attempt();
      } catch (error) {
        this.#checkError(error);
        await sleep(20);
      }
      await sleep(random.between(0, 2 * pause));
    }
  }

  /** Acquires a lock by one of its methods, works and releases it. */
  async #acquireOnce(lock: Lock, mode: Mode): Promise<void> {
    const { random } = this.context;
    const options = this.#options(mode, lock.key);
    const requested = this.#requestedLock(lock, mode, options);
    switch (random.pick(['withLock', 'acquire', 'tryAcquire', 'enter'])) {
      case 'withLock':
        return this.#recorder.withLock(lock, requested, options, (record) => this.#work(record));
      case 'acquire': {
        const lease = await this.#recorder.acquire(requested, options, () => lock.acquire(options));
        return this.#workAndRelease(lease);
      }
      case 'tryAcquire': {
        const tried = { ...options, wait: 0 };
        const { history, incarnation } = this.context;
        const request = history.recordRequest(incarnation, requested, tried);
        const lease = await settle(lock.tryAcquire(tried), (error) =>
          history.recordRefusal(request, error),
        );
        if (lease) return this.#workAndRelease(history.recordGrant(request, lease));
        return history.recordRefusal(request, this.#busy(lock.key));
      }
      default: {
        const entered = await this.#recorder.enter(lock, requested, options);
        await entered.entry.run(() => this.#work(entered.record));
        this.context.history.recordReleaseStart(entered.record);
        await entered.entry.release();
        this.context.history.recordReleaseEnd(entered.record);
      }
    }
  }

  /** Holds a lock for so long that most faults of the process happen while it holds the lock. */
  async #longHold(lock: Lock): Promise<void> {
    const options = { ...this.#options('exclusive', lock.key), holdAtMost: undefined };
    const requested = this.#requestedLock(lock, 'exclusive', options);
    const longest = 3 * this.context.setting.sessionTimeout;
    await this.#recorder.withLock(lock, requested, options, (record) =>
      this.#work(record, longest),
    );
  }

  /** Acquires a lock by many callers of this process at the same time. */
  async #burst(lock: Lock, mode: Mode): Promise<void> {
    const { random, incarnation } = this.context;
    const callers = Array.from({ length: random.whole(...BURST_CALLERS) }, async () => {
      const options = { ...this.#options(mode, lock.key), wait: 5_000, holdAtLeast: undefined };
      const requested = this.#requestedLock(lock, mode, options);
      try {
        await this.#recorder.withLock(lock, requested, options, async (record) => {
          if (incarnation.holderSleepsUntil > 0) await this.#sleepAsHolder();
          else if (random.chance(0.02)) await this.#work(record);
        });
      } catch (error) {
        this.#checkError(error);
      }
    });
    await Promise.all(callers);
  }

  /** Sends the machine to sleep. The fault ends the sleep. */
  async #sleepAsHolder(): Promise<void> {
    const { incarnation, process, world } = this.context;
    const until = incarnation.holderSleepsUntil;
    incarnation.holderSleepsUntil = 0;
    // Callers that were granted another lock in the same turn of the event loop start first.
    await sleep(1);
    // After the end of the fault, nothing would end the sleep.
    if (world.now < until) process.pause({ asleep: true });
  }

  async #downgrade(lock: ReadWriteLock): Promise<void> {
    const { random } = this.context;
    const options = { ...this.#options('write', 'pages'), holdAtMost: undefined };
    const requested = this.#requestedLock(lock.write, 'write', options);
    const readLock = this.#requestedLock(lock.read, 'read', {});
    const lease = await this.#recorder.acquire(requested, options, () =>
      lock.write.acquire(options),
    );
    await this.#work(lease, 15);
    const record = await this.#recorder.downgrade(lock, lease, readLock);
    if (!record) return;
    await this.#work(record, random.whole(0, 30));
    await this.#recorder.release(record);
  }

  async #multiLock(locks: readonly Lock[]): Promise<void> {
    const { library, random } = this.context;
    const { fairness: _, linger: __, ...options } = this.#options('exclusive', 'left');
    // The order of the locks must not matter.
    const ordered = random.chance(0.5) ? locks : locks.toReversed();
    const requested = ordered.map((lock) =>
      this.#requestedLock(lock, lock.key === 'pages' ? 'write' : 'exclusive', options),
    );
    const multiLock = new library.recipes.MultiLock(ordered);
    await this.#recorder.withMultiLock(multiLock, requested, options, ([first, ...rest]) =>
      this.#work(first!, 30, rest),
    );
  }

  /** Acquires a second lock while it holds a first one. All processes use the same order, so there is no deadlock. */
  async #nestedLocks(outer: Lock, inner: Lock): Promise<void> {
    const { random } = this.context;
    const options = this.#options('exclusive', 'outer');
    await this.#recorder.withLock(
      outer,
      this.#requestedLock(outer, 'exclusive', options),
      options,
      async () => {
        const within: AcquireOptions = { wait: random.pick([0, 300, 5_000]) };
        const requested = this.#requestedLock(inner, 'exclusive', within);
        await this.#recorder.withLock(inner, requested, within, (record) => this.#work(record));
      },
    );
  }

  /** Re-enters a lock that it holds. The inner lease must have the token of the outer one. */
  async #reenter(lock: Lock): Promise<void> {
    const { history, random, incarnation } = this.context;
    const options = this.#options('exclusive', lock.key);
    // In some cases the outer lease is lost before the re-entry.
    if (random.chance(0.3)) Object.assign(options, { holdAtLeast: undefined, holdAtMost: 5 });
    await this.#recorder.withLock(
      lock,
      this.#requestedLock(lock, 'exclusive', options),
      options,
      async (record) => {
        if (options.holdAtMost === 5) await sleep(random.between(0, 20));
        if (!record.lease.held) {
          await lock.withLock(() => {
            const why = `${incarnation.name} re-entered ${lock.key} inside of a lost lease`;
            history.recordViolation('a lost lease cannot be re-entered', why);
          });
          return;
        }
        await lock.withLock((again) => {
          if (again.fencingToken !== record.lease.fencingToken) {
            history.recordViolation(
              'a re-entry has the token of its outer lease',
              `${lock.key} had another token in a re-entry`,
            );
          }
        });
        await this.#work(record);
      },
    );
  }

  /** Uses an entry after its release while an outer lease of the same lock is still held. */
  async #useEntryLate(lock: Lock): Promise<void> {
    const { history, random } = this.context;
    let late: Promise<void> | undefined;
    const options = this.#options('exclusive', lock.key);
    await this.#recorder.withLock(
      lock,
      this.#requestedLock(lock, 'exclusive', options),
      options,
      async (record) => {
        if (!record.lease.held) return;
        const entry = await lock.enter();
        await entry.release();
        late = this.#runDetached(() =>
          entry.run(async () => {
            const within = { wait: random.pick([0, 3_000]) };
            const requested = this.#requestedLock(lock, 'exclusive', within);
            const request = history.recordRequest(this.context.incarnation, requested, within);
            const inner = recordAcquire(request, history, () => lock.acquire(within));
            await this.#workAndRelease(await inner);
          }),
        );
        await this.#work(record);
      },
    );
    await late;
  }

  /** Runs a function in another call chain, as a timer or a queue does. */
  async #runDetached(act: () => Promise<void>): Promise<void> {
    try {
      await this.context.library.recipes.runDetached(act);
    } catch (error) {
      this.#checkError(error);
    }
  }

  /** Raises the number of permits of a semaphore while a caller waits for a permit. */
  async #raisePermits(): Promise<void> {
    const { history, incarnation, library, world, isFaultFree, setting, random } = this.context;
    const { recipes } = library;
    const path = this.#path(`pool-${incarnation.name}`);
    const permits = new recipes.SharedCount(this.client, `${path}-size`);
    await permits.set(1);
    const pool = new recipes.Semaphore(this.client, path, {
      permits,
      key: `pool-${incarnation.name}`,
    });
    const lease = await pool.acquire({ wait: 5_000 });
    const waiting = pool.acquire({ wait: 5_000 });
    const settled = new AbortController();
    const released = waiting
      .finally(() => settled.abort())
      .then((second) => second.release())
      .catch(() => {});
    try {
      await sleep(random.between(0, 100));
      const started = world.now;
      await permits.set(2);
      // Much shorter than the wait, so that the waiter gets a permit only because their number was raised.
      const limit = 40 * setting.latency[1] + 4 * setting.lag[1] + 100;
      await sleep(limit, undefined, { signal: settled.signal }).catch(() => {});
      if (!settled.signal.aborted && isFaultFree(started, world.now)) {
        const why = `${incarnation.name} still waited for a permit ${limit} ms after the number of permits was raised`;
        history.recordViolation('raised permits are granted to waiters', why);
      }
    } finally {
      await lease.release();
      await released;
    }
  }

  /** Lists the participants of a lock, and in half of the cases asks its holder to release it. */
  async #listAndRevoke(mutex: (key: string) => Lock): Promise<void> {
    const { random, incarnation, history } = this.context;
    const lock = mutex(random.pick(['till', 'rare', 'hot', 'vault', `own-${incarnation.name}`]));
    await lock.participants();
    if (random.chance(0.5)) await history.recordRevocation(lock.key, lock.revoke());
  }

  #startElections(): readonly { close(): Promise<void> }[] {
    const { history, incarnation, library, random, acceptsWork } = this.context;
    const { recipes } = library;
    const id = incarnation.name;
    const onError = (error: unknown) => this.#checkError(error);
    const latch = this.#startLatch(async (lead, term) => {
      await this.#work(lead, random.whole(50, 600));
      if (term.active && acceptsWork()) await latch.resign().catch(onError);
    });
    const takeLeadership = async (term: Term) => {
      const lead = this.#recorder.term('selector', term);
      const interrupt = () => void selector.interruptLeadership();
      const timer = random.chance(0.3) && setTimeout(interrupt, random.between(0, 200));
      await this.#work(lead, random.whole(20, 400));
      if (timer) clearTimeout(timer);
      // The work may continue for a while after the end of the term. The next leader must not start before that.
      if (!term.active) await sleep(random.between(0, 40));
      history.recordReleaseStart(lead);
      history.recordStop(lead);
    };
    const options = { id, onError, autoRequeue: true };
    const selector = new recipes.LeaderSelector(
      this.client,
      this.#path('selector'),
      takeLeadership,
      options,
    );
    selector.start();
    return [latch, selector];
  }

  /** Takes part in the election of a latch, and calls `lead` at the start of each term. */
  #startLatch(lead: (record: LeaseRecord, term: Term) => Promise<void>): LeaderLatch {
    const { incarnation, library } = this.context;
    const latch = new library.recipes.LeaderLatch(this.client, this.#path('latch'), {
      id: incarnation.name,
      onError: (error) => this.#checkError(error),
    });
    latch.onChange((term) => {
      if (term) void lead(this.#recorder.term('latch', term), term);
    });
    latch.start();
    return latch;
  }

  async #workAndRelease(record: LeaseRecord<Lease>): Promise<void> {
    await this.#work(record);
    await this.#recorder.release(record);
  }

  /** Works in steps until the time is over or a lease is no longer held. */
  async #work(record: LeaseRecord, longest?: number, others: LeaseRecord[] = []): Promise<void> {
    const { history, random, world } = this.context;
    const most = longest ?? (random.chance(0.05) ? 900 : 40);
    const until = world.now + random.between(0, most);
    do {
      const held = [record, ...others].every((each) => history.recordWork(each));
      // A holder may call release() some time after it has lost its lease.
      if (!held) return void (random.chance(0.3) && (await sleep(random.between(0, 60))));
      await sleep(Math.min(WORK_STEP, Math.max(1, until - world.now)));
    } while (world.now < until);
  }

  #requestedLock(
    lock: Lock,
    mode: Mode,
    options: AcquireOptions & { count?: number },
  ): RequestedLock {
    const { count = 1 } = options;
    const permits = mode === 'permit' ? PERMITS : lock.key === 'door' ? 1 : undefined;
    return { key: lock.key, path: lock.path, mode, count, permits };
  }

  #options(mode: Mode, key: string): AcquireOptions & { count?: number } {
    const { random, setting, history, incarnation } = this.context;
    const options: AcquireOptions & { count?: number } = {
      wait: random.pick([0, random.whole(20, 500), 5_000, 5_000, Infinity]),
      signal: this.#signal,
    };
    if (mode === 'permit' && key === 'seats') options.count = random.whole(1, 2);
    if (random.chance(setting.lingerProbability)) {
      options.linger = random.chance(0.3) ? 'auto' : random.whole(1, MAX_LINGER);
    }
    if (random.chance(setting.strictProbability)) options.fairness = 'strict';
    if (random.chance(0.05)) options.holdAtLeast = random.whole(1, MAX_HOLD_AT_LEAST);
    if (random.chance(0.05)) options.holdAtMost = random.whole(MAX_HOLD_AT_LEAST, 400);
    if (random.chance(0.1)) {
      const after = random.whole(1, 300);
      options.signal = AbortSignal.timeout(after);
      history.recordAbortTime(options.signal, after / incarnation.clockRate);
    }
    return options;
  }

  #busy(key: string): Error {
    return new this.context.library.recipes.LockBusyError(`${key} is taken`, { key });
  }

  /** Checks that an error is of a class that the library documents. */
  #checkError(error: unknown): void {
    const { history, library, incarnation } = this.context;
    if (error instanceof library.recipes.CoordinationError) return;
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    history.recordViolation('errors are of the documented classes', `${incarnation.name}: ${why}`);
  }
}
