import { setTimeout as sleep } from 'node:timers/promises';
import { getEventListeners, setMaxListeners } from 'node:events';
import type { History, Holding, LeaseRecord, Mode, Request, Wanted } from './history.js';
import type { Context, Program } from './members.js';
import { type JobName, LONGEST_KEEP, LONGEST_LINGER, PERMITS } from './setting.js';

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type Lease = import('nestjs-zookeeper/recipes').Lease;
type Lock = import('nestjs-zookeeper/recipes').Lock;
type ReadWriteLock = import('nestjs-zookeeper/recipes').ReadWriteLock;
type Term = import('nestjs-zookeeper/recipes').Term;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;

/** The parent of all locks of the workload. */
export const ROOT = '/simulated';

/** Milliseconds between two looks of a holder at its lease while it works. */
const WORK_STEP = 7;
/** Callers of one process that want a lock at once in a burst. */
const BURST = [10, 80] as const;

/** Resolves to a program that uses every recipe in several loops until its process stops working. */
export async function startJobs(context: Context): Promise<Program> {
  const client = await connect(context);
  followSession(client, context);
  const jobs = new Jobs(context, client);
  return jobs.start();
}

/** Keeps the life's session up to date. To be called in the process of the client. */
export function followSession(client: ZkClient, { life }: Context): void {
  life.session = client.sessionId;
  client.onState(({ state, sessionId }) => {
    if (state === 'CONNECTED' || state === 'RECONNECTED') life.session = sessionId;
  });
}

/** A process may start while no server answers, so it tries again until one does. */
async function connect({ process, setting, library, working }: Context): Promise<ZkClient> {
  for (;;) {
    try {
      return await process.client({
        sessionTimeout: setting.sessionTimeout,
        connectTimeout: setting.sessionTimeout / 4,
        policy: setting.policy,
        retry: { type: 'fixed', delay: 50, maxAttempts: 40 },
      });
    } catch (error) {
      if (!(error instanceof library.recipes.ConnectionError) || !working()) throw error;
    }
  }
}

class Jobs {
  /** Listened to by many acquires; in the end nobody may listen any more. */
  readonly #signal = new AbortController().signal;
  readonly #path = (name: string) => `${ROOT}/${name}`;

  constructor(
    private readonly context: Context,
    private readonly client: ZkClient,
  ) {
    setMaxListeners(0, this.#signal);
  }

  start(): Program {
    const { life, setting } = this.context;
    const { recipes } = this.context.library;
    const mutex = (key: string) => new recipes.Mutex(this.client, this.#path(key), { key });
    const pages = new recipes.ReadWriteLock(this.client, this.#path('pages'), { key: 'pages' });
    const door = new recipes.NonReentrantMutex(this.client, this.#path('door'), { key: 'door' });
    const seats = new recipes.Semaphore(this.client, this.#path('seats'), {
      permits: PERMITS,
      key: 'seats',
    });
    const parts = [mutex('left'), pages.write, mutex('right')];
    const jobs: Record<JobName, () => Promise<void>[]> = {
      till: () => this.#loops(2, () => this.#once(mutex('till'), 'exclusive')),
      vault: () => this.#loops(1, () => this.#longHold(mutex('vault')), 100),
      own: () => this.#loops(1, () => this.#once(mutex(`own-${life.name}`), 'exclusive')),
      rare: () => this.#loops(1, () => this.#once(mutex('rare'), 'exclusive'), 600),
      door: () => this.#loops(1, () => this.#once(door, 'exclusive')),
      pages: () => [
        ...this.#loops(2, () => this.#once(pages.read, 'read')),
        ...this.#loops(1, () => this.#once(pages.write, 'write'), 150),
      ],
      seats: () => this.#loops(2, () => this.#once(seats, 'permit')),
      downgrade: () => this.#loops(1, () => this.#downgrade(pages), 300),
      multi: () => this.#loops(1, () => this.#multi(parts), 200),
      nested: () => this.#loops(1, () => this.#nested(mutex('outer'), mutex('inner')), 150),
      reenter: () => this.#loops(1, () => this.#reenter(mutex('till')), 300),
      enter: () => this.#loops(1, () => this.#enter(mutex('till')), 300),
      hot: () => this.#loops(1, () => this.#burst(mutex('hot'), 'exclusive'), 60),
      'hot permits': () => this.#loops(1, () => this.#burst(seats, 'permit'), 400),
      'hot pages': () => this.#loops(1, () => this.#burst(pages.read, 'read'), 200),
      pool: () => this.#loops(1, () => this.#raisePermits(), 300),
      look: () => this.#loops(1, () => this.#look(mutex), 300),
    };
    const loops = this.context.setting.jobs.flatMap((name) => jobs[name]());
    if (setting.policy === 'standard') this.#watchSuspension();
    const elections = this.#elect();
    return {
      client: this.client,
      finished: Promise.all(loops).then(() => this.#checkListeners()),
      leave: async () => void (await Promise.all(elections.map((each) => each.close()))),
      close: () => this.client.close(),
    };
  }

  /** @param pause milliseconds between two attempts of a loop, on average */
  #loops(count: number, attempt: () => Promise<void>, pause = 60): Promise<void>[] {
    return Array.from({ length: count }, () => this.#loop(attempt, pause));
  }

  async #loop(attempt: () => Promise<void>, pause: number): Promise<void> {
    const { working, random } = this.context;
    await sleep(random.between(0, pause));
    while (working()) {
      try {
        await attempt();
      } catch (error) {
        this.#expected(error);
        await sleep(20);
      }
      await sleep(random.between(0, 2 * pause));
    }
  }

  /** One acquire in one of the ways that a lock offers. */
  async #once(lock: Lock, mode: Mode): Promise<void> {
    const { random } = this.context;
    const options = this.#options(mode, lock.key);
    const wanted = this.#wanted(lock, mode, options);
    switch (random.pick(['withLock', 'acquire', 'tryAcquire', 'enter'])) {
      case 'withLock':
        return this.#withLock(lock, wanted, options, (record) => this.#work(record));
      case 'acquire': {
        const lease = await this.#ask(wanted, options, () => lock.acquire(options));
        return this.#hold(lease);
      }
      case 'tryAcquire': {
        const tried = { ...options, wait: 0 };
        const { history, life } = this.context;
        const request = history.ask(life, wanted, tried);
        const lease = await settle(lock.tryAcquire(tried), (error) =>
          history.refused(request, error),
        );
        if (lease) return this.#hold(history.granted(request, lease));
        return history.refused(request, this.#busy(lock.key));
      }
      default: {
        const entered = await this.#enterOnce(lock, wanted, options);
        await entered.entry.run(() => this.#work(entered.record));
        this.context.history.releasing(entered.record);
        await entered.entry.release();
        this.context.history.released(entered.record);
      }
    }
  }

  /** Holds a lock for so long that most faults of its holder meet it. */
  async #longHold(lock: Lock): Promise<void> {
    const options = { ...this.#options('exclusive', lock.key), holdAtMost: undefined };
    const wanted = this.#wanted(lock, 'exclusive', options);
    const longest = 2 * this.context.setting.sessionTimeout;
    await this.#withLock(lock, wanted, options, (record) => this.#work(record, longest));
  }

  /** Many callers of this process at once. */
  async #burst(lock: Lock, mode: Mode): Promise<void> {
    const { random } = this.context;
    const callers = Array.from({ length: random.whole(...BURST) }, async () => {
      const options = { ...this.#options(mode, lock.key), wait: 5_000, holdAtLeast: undefined };
      const wanted = this.#wanted(lock, mode, options);
      try {
        await this.#withLock(lock, wanted, options, async (record) => {
          if (random.chance(0.02)) await this.#work(record);
        });
      } catch (error) {
        this.#expected(error);
      }
    });
    await Promise.all(callers);
  }

  async #downgrade(lock: ReadWriteLock): Promise<void> {
    const { history, life, random } = this.context;
    const options = { ...this.#options('write', 'pages'), holdAtMost: undefined };
    const wanted = this.#wanted(lock.write, 'write', options);
    const reading = this.#wanted(lock.read, 'read', {});
    const lease = await settleAcquire(history.ask(life, wanted, options), history, () =>
      lock.write.acquire(options),
    );
    await this.#work(lease, 15);
    const request = history.ask(life, reading, { wait: 0 });
    // It releases the write lease some time before it resolves.
    history.releasing(lease);
    const read = settle(lock.downgrade(lease.lease), (error) => history.refused(request, error));
    const downgraded = await read;
    // The read lease was granted before the write lease was released, and may be lost by now.
    if (!downgraded.held) {
      history.refused(request, downgraded.signal.reason);
      return downgraded.release();
    }
    const record = history.granted(request, downgraded);
    history.released(lease);
    await this.#work(record, random.whole(0, 30));
    await this.#release(record);
  }

  async #multi(locks: readonly Lock[]): Promise<void> {
    const { history, life, library, random } = this.context;
    const { fairness: _, linger: __, ...options } = this.#options('exclusive', 'left');
    // The order in which they are given must not matter.
    const given = random.chance(0.5) ? locks : locks.toReversed();
    const all = new library.recipes.MultiLock(given);
    const requests = given.map((lock) => {
      const mode = lock.key === 'pages' ? 'write' : 'exclusive';
      return history.ask(life, { ...this.#wanted(lock, mode, options), partial: true }, options);
    });
    const refuse = (error: unknown) => {
      for (const request of requests) history.refused(request, error);
    };
    const lease = await settle(all.acquire(options), refuse);
    if (lease.leases.some(({ held }) => !held)) {
      const why = `${life.name} was granted several locks, one of which was lost`;
      history.violation('several locks are granted all or none', why);
    }
    const records = requests.map((request, index) =>
      history.granted(request, lease.leases[index]!, lease.fencingToken),
    );
    await this.#work(records[0]!, 30, records.slice(1));
    for (const record of records) history.releasing(record);
    await lease.release();
    for (const record of records) history.released(record);
  }

  /** Waits for a second lock as the holder of the first one, always in the same order. */
  async #nested(outer: Lock, inner: Lock): Promise<void> {
    const { random } = this.context;
    const options = this.#options('exclusive', 'outer');
    await this.#withLock(outer, this.#wanted(outer, 'exclusive', options), options, async () => {
      const within: AcquireOptions = { wait: random.pick([0, 300, 5_000]) };
      const wanted = this.#wanted(inner, 'exclusive', within);
      await this.#withLock(inner, wanted, within, (record) => this.#work(record));
    });
  }

  /** Takes a lock again inside of itself: at once, with the same token, and held until the outer release. */
  async #reenter(lock: Lock): Promise<void> {
    const { history, random, life } = this.context;
    const options = this.#options('exclusive', lock.key);
    // Some leases end before the lock is taken again.
    if (random.chance(0.3)) Object.assign(options, { holdAtLeast: undefined, holdAtMost: 5 });
    await this.#withLock(
      lock,
      this.#wanted(lock, 'exclusive', options),
      options,
      async (record) => {
        if (options.holdAtMost === 5) await sleep(random.between(0, 20));
        if (!record.lease.held) {
          await lock.withLock(() => {
            const why = `${life.name} took ${lock.key} again inside of a lost lease`;
            history.violation('nobody re-enters a lost lease', why);
          });
          return;
        }
        await lock.withLock((again) => {
          if (again.fencingToken !== record.lease.fencingToken) {
            history.violation(
              'a re-entry is the same grant',
              `${lock.key} had another token inside`,
            );
          }
        });
        await this.#work(record);
      },
    );
  }

  /** Uses an entry after its release while an outer lease of the same lock is still held. */
  async #enter(lock: Lock): Promise<void> {
    const { history, random } = this.context;
    let late: Promise<void> | undefined;
    const options = this.#options('exclusive', lock.key);
    await this.#withLock(
      lock,
      this.#wanted(lock, 'exclusive', options),
      options,
      async (record) => {
        if (!record.lease.held) return;
        const entry = await lock.enter();
        await entry.release();
        late = this.#elsewhere(() =>
          entry.run(async () => {
            const within = { wait: random.pick([0, 3_000]) };
            const wanted = this.#wanted(lock, 'exclusive', within);
            const request = history.ask(this.context.life, wanted, within);
            const inner = settleAcquire(request, history, () => lock.acquire(within));
            await this.#hold(await inner);
          }),
        );
        await this.#work(record);
      },
    );
    await late;
  }

  /** Runs in another call chain, as a timer or a queue would. */
  async #elsewhere(act: () => Promise<void>): Promise<void> {
    try {
      await this.context.library.recipes.runDetached(act);
    } catch (error) {
      this.#expected(error);
    }
  }

  /** Under the policy `standard`, a lost connection ends every lease. */
  #watchSuspension(): void {
    const { history, life } = this.context;
    this.client.onState(({ state }) => {
      if (state !== 'SUSPENDED') return;
      const held = history.openOf(life);
      setImmediate(() => {
        for (const { lease, key } of held) {
          if (lease.signal.aborted || this.client.connected) continue;
          const why = `${life.name} kept ${key} although its connection was lost`;
          history.violation('a lost connection ends leases under the policy standard', why);
        }
      });
    });
  }

  /** Raises the number of permits while somebody waits for one. */
  async #raisePermits(): Promise<void> {
    const { history, life, library, world, calm, setting, random } = this.context;
    const { recipes } = library;
    const path = this.#path(`pool-${life.name}`);
    const permits = new recipes.SharedCount(this.client, `${path}-size`);
    await permits.set(1);
    const pool = new recipes.Semaphore(this.client, path, { permits, key: `pool-${life.name}` });
    const lease = await pool.acquire({ wait: 5_000 });
    const waiting = pool.acquire({ wait: 5_000 });
    const released = waiting.then((second) => second.release()).catch(() => {});
    try {
      await sleep(random.between(0, 100));
      const started = world.now;
      await permits.set(2);
      await waiting;
      const took = world.now - started;
      const limit = 40 * setting.latency[1] + 4 * setting.lag[1] + 100;
      if (took > limit && calm(started, world.now)) {
        const why = `${life.name} waited ${took.toFixed(1)} ms for a permit after there were more`;
        history.violation('more permits wake a waiter', why);
      }
    } finally {
      await lease.release();
      await released;
    }
  }

  /** Reads who takes part, and sometimes asks the holder for the lock. */
  async #look(mutex: (key: string) => Lock): Promise<void> {
    const { random, life, history } = this.context;
    const lock = mutex(random.pick(['till', 'rare', 'hot', 'vault', `own-${life.name}`]));
    await lock.participants();
    if (random.chance(0.5)) await history.revoking(lock.key, lock.revoke());
  }

  #elect(): readonly { close(): Promise<void> }[] {
    const { history, life, library, random, working } = this.context;
    const { recipes } = library;
    const id = life.name;
    const onError = (error: unknown) => this.#expected(error);
    const record = (key: string, term: Term) => {
      const wanted = { key, path: undefined, mode: 'lead', count: 1 } as const;
      return history.granted(history.ask(life, wanted), holdingOf(term));
    };
    const latch = new recipes.LeaderLatch(this.client, this.#path('latch'), { id, onError });
    latch.onChange((term) => {
      if (!term) return;
      const lead = record('latch', term);
      void this.#work(lead, random.whole(50, 600)).then(() => {
        if (term.active && working()) return latch.resign().catch(onError);
      });
    });
    const take = async (term: Term) => {
      const lead = record('selector', term);
      const interrupt = () => void selector.interruptLeadership();
      const timer = random.chance(0.3) && setTimeout(interrupt, random.between(0, 200));
      await this.#work(lead, random.whole(20, 400));
      if (timer) clearTimeout(timer);
      // It may take a while to stop; the next leader must not begin before.
      if (!term.active) await sleep(random.between(0, 40));
      history.releasing(lead);
      history.stopped(lead);
    };
    const options = { id, onError, autoRequeue: true };
    const selector = new recipes.LeaderSelector(this.client, this.#path('selector'), take, options);
    latch.start();
    selector.start();
    return [latch, selector];
  }

  async #withLock(
    lock: Lock,
    wanted: Wanted,
    options: AcquireOptions,
    act: (record: LeaseRecord) => Promise<void>,
  ): Promise<void> {
    const { history, life } = this.context;
    const request = history.ask(life, wanted, options);
    let record: LeaseRecord | undefined;
    try {
      await lock.withLock(async (lease) => {
        record = history.granted(request, lease);
        try {
          await act(record);
        } finally {
          history.releasing(record);
        }
      }, options);
    } catch (error) {
      if (!record) history.refused(request, error);
      throw error;
    } finally {
      if (record) history.released(record);
    }
  }

  async #enterOnce(lock: Lock, wanted: Wanted, options: AcquireOptions) {
    const { history, life } = this.context;
    const request = history.ask(life, wanted, options);
    const entry = await settle(lock.enter(options), (error) => history.refused(request, error));
    return { entry, record: history.granted(request, entry.lease) };
  }

  async #ask(
    wanted: Wanted,
    options: AcquireOptions,
    acquire: () => Promise<Lease>,
  ): Promise<LeaseRecord<Lease>> {
    const { history, life } = this.context;
    return settleAcquire(history.ask(life, wanted, options), history, acquire);
  }

  async #hold(record: LeaseRecord<Lease>): Promise<void> {
    await this.#work(record);
    await this.#release(record);
  }

  async #release(record: LeaseRecord<Lease>): Promise<void> {
    const { history } = this.context;
    history.releasing(record);
    await record.lease.release();
    history.released(record);
  }

  /** Works in steps, each only as long as the lease is held. */
  async #work(record: LeaseRecord, longest?: number, others: LeaseRecord[] = []): Promise<void> {
    const { history, random, world } = this.context;
    const most = longest ?? (random.chance(0.05) ? 900 : 40);
    const until = world.now + random.between(0, most);
    do {
      const held = [record, ...others].every((each) => history.works(each));
      // A holder may release some time after it has lost its lease.
      if (!held) return void (random.chance(0.3) && (await sleep(random.between(0, 60))));
      await sleep(Math.min(WORK_STEP, Math.max(1, until - world.now)));
    } while (world.now < until);
  }

  #wanted(lock: Lock, mode: Mode, options: AcquireOptions & { count?: number }): Wanted {
    const { count = 1 } = options;
    const permits = mode === 'permit' ? PERMITS : lock.key === 'door' ? 1 : undefined;
    return { key: lock.key, path: lock.path, mode, count, permits };
  }

  #options(mode: Mode, key: string): AcquireOptions & { count?: number } {
    const { random, setting, history, life } = this.context;
    const options: AcquireOptions & { count?: number } = {
      wait: random.pick([0, random.whole(20, 500), 5_000, 5_000, Infinity]),
      signal: this.#signal,
    };
    if (mode === 'permit' && key === 'seats') options.count = random.whole(1, 2);
    if (random.chance(setting.lingers)) options.linger = random.whole(1, LONGEST_LINGER);
    if (random.chance(setting.strict)) options.fairness = 'strict';
    if (random.chance(0.05)) options.holdAtLeast = random.whole(1, LONGEST_KEEP);
    if (random.chance(0.05)) options.holdAtMost = random.whole(LONGEST_KEEP, 400);
    if (random.chance(0.1)) {
      const after = random.whole(1, 300);
      options.signal = AbortSignal.timeout(after);
      history.cancels(options.signal, after / life.clockRate);
    }
    return options;
  }

  #busy(key: string): Error {
    return new this.context.library.recipes.LockBusyError(`${key} is taken`, { key });
  }

  /** Only errors of the library's own classes may reach its users. */
  #expected(error: unknown): void {
    const { history, library, life } = this.context;
    if (error instanceof library.recipes.CoordinationError) return;
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    history.violation('errors are of the documented classes', `${life.name}: ${why}`);
  }

  #checkListeners(): void {
    const count = getEventListeners(this.#signal, 'abort').length;
    if (count === 0) return;
    const { history, life } = this.context;
    history.violation('no listener is left', `${count} on a signal of ${life.name}`);
  }
}

/** Notes what an acquire comes to. */
async function settleAcquire(
  request: Request,
  history: History,
  acquire: () => Promise<Lease>,
): Promise<LeaseRecord<Lease>> {
  const lease = await settle(acquire(), (error) => history.refused(request, error));
  return history.granted(request, lease);
}

export function holdingOf(term: Term): Holding {
  return {
    get held() {
      return term.active;
    },
    get signal() {
      return term.signal;
    },
    fencingToken: term.fencingToken,
  };
}

/** Resolves or rejects with `promise`, and notes a rejection. */
export async function settle<T>(
  promise: Promise<T>,
  refused: (error: unknown) => void,
): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    refused(error);
    throw error;
  }
}
