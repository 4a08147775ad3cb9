import {
  checkTransaction,
  type Stat,
  type TransactionOperation,
  type TransactionResults,
  ZkClient,
} from '../client/index.js';
import {
  type AcquireOptions,
  type LeaderLatch,
  type LeaderParticipant,
  type LeaderSelector,
  LeaseLostError,
  type Lock,
  LockRevokedError,
  type Semaphore,
  type SharedCount,
  type Term,
} from '../recipes/index.js';
import {
  busy,
  cancelled,
  Grant,
  LeaseTerm,
  type LockKind,
  RESOLVED,
  timedOut,
  Waiter,
  type WaitRequest,
} from '../kernel/index.js';
import { electionPath } from '../services/keys.js';
import { LeaderService } from '../services/leader.service.js';
import { LockService } from '../services/lock.service.js';
import { type SemaphoreQuery, SemaphoreService } from '../services/semaphore.service.js';

/*
 * The services of FakeLocks. The services and recipes are the real ones: they check their options, re-enter, and make
 * leases, terms and errors. Only the steps that would ask the ensemble are replaced, with the answers of a FakeEnsemble.
 */

/** Nothing connects to it. */
const NOWHERE = '127.0.0.1:1';

/** The id of the leader of an election that is busy. */
const OTHER_PROCESS = 'another process';

/** The stat of a znode that was set once. */
const FIRST_SET: Stat = {
  czxid: 1,
  mzxid: 2,
  pzxid: 1,
  ctime: 0,
  mtime: 0,
  version: 1,
  cversion: 0,
  aversion: 0,
  ephemeralOwner: '0',
  dataLength: 0,
  numChildren: 0,
};

/** A client that counts as connected, although there is no server. */
class FakeClient extends ZkClient {
  constructor() {
    const noServer = new Error('FakeLocks has no server; a test that needs one uses TestZooKeeper');
    super({ connectString: NOWHERE, retry: { type: 'none' } }, () => Promise.reject(noServer));
  }

  override get state(): 'CONNECTED' {
    return 'CONNECTED';
  }

  override get connected(): true {
    return true;
  }
}

type PermitOptions = NonNullable<Parameters<Semaphore['acquire']>[0]>;

interface Held {
  readonly key: string;
  readonly recipe: LockKind;
  readonly count: number;
}

/** Which keys other processes hold, and what this process holds and waits for. */
export class FakeEnsemble {
  readonly client = new FakeClient();
  private readonly busyKeys = new Set<string>();
  private readonly held = new Map<Grant, Held>();
  private readonly waiting = new Set<{ readonly key: string; readonly proceed: () => void }>();
  private lastToken = 0n;
  /** The operations of the transactions of leases and terms. */
  readonly transactions: (readonly TransactionOperation[])[] = [];

  isBusy(key: string): boolean {
    return this.busyKeys.has(key);
  }

  /** Only one process leads, so a term ends. Leases are kept. */
  busy(key: string): void {
    this.busyKeys.add(key);
    this.end(key, 'busy', (recipe) => recipe === 'election');
  }

  free(key: string): void {
    this.busyKeys.delete(key);
    for (const waiter of [...this.waiting].filter((each) => each.key === key)) {
      this.waiting.delete(waiter);
      waiter.proceed();
    }
  }

  lose(key: string): void {
    this.busyKeys.add(key);
    this.end(key, 'lose', () => true);
  }

  private end(key: string, by: string, concerns: (recipe: LockKind) => boolean): void {
    const cause = new Error(`the test called FakeLocks.${by}()`);
    const reason = new LeaseLostError(`the lease on ${key} was lost: ${cause.message}`, {
      key,
      cause,
    });
    for (const grant of this.grantsOf(key, concerns)) {
      this.held.delete(grant);
      grant.end('lost', reason);
      grant.notifyLoss();
    }
  }

  revoke(key: string): void {
    const reason = new LockRevokedError(`a client requested the revocation of ${key}`, { key });
    for (const grant of this.grantsOf(key)) grant.revoke(reason);
  }

  /** Returns the number of permits that this process holds. */
  permitsHeld(key: string): number {
    const permits = [...this.held.values()].filter(
      (each) => each.key === key && each.recipe === 'semaphore',
    );
    return permits.reduce((sum, { count }) => sum + count, 0);
  }

  grant({ key, path, recipe }: { key: string; path: string; recipe: LockKind }, count = 1): Grant {
    const grant: Grant = new Grant(
      {
        client: this.client,
        recipe,
        path,
        position: { session: undefined as never, nodes: [], zxid: 0, children: [] },
        trusted: true,
        returned: async () => void this.held.delete(grant),
        end: () => RESOLVED,
        endAfterGrants() {},
        noticeLoss: () => {},
        lose: () => {},
        transaction: (_, operations) => this.applied(operations),
        watchNodes() {},
      },
      ++this.lastToken,
      'cold',
    );
    this.held.set(grant, { key, recipe, count });
    return grant;
  }

  /** Records a transaction, and makes results as if it had created each znode and set each for the first time. */
  private async applied<const T extends readonly TransactionOperation[]>(
    operations: T,
  ): Promise<TransactionResults<T>> {
    if (operations.length > 0) checkTransaction(operations, [], { chroot: '' });
    this.transactions.push(operations);
    const results = operations.map((operation) => {
      if ('create' in operation) return operation.create;
      return 'set' in operation ? FIRST_SET : undefined;
    });
    return results as unknown as TransactionResults<T>;
  }

  /** Grants a lock, or rejects as if its wait were over. A wait without a limit lasts until {@link free}. */
  async take(
    lock: Lock,
    { wait = Infinity, signal, count }: AcquireOptions & { count?: number },
  ): Promise<Grant> {
    if (signal?.aborted) throw cancelled(lock, signal);
    if (!this.isBusy(lock.key)) return this.grant(lock, count);
    if (wait !== Infinity) throw wait === 0 ? busy(lock) : timedOut(lock, wait);
    const waiter: Waiter<Grant, WaitRequest> = new Waiter<Grant, WaitRequest>(
      { subject: lock, wait, signal },
      { remove: () => stop() },
    );
    const stop = this.whenFree(lock.key, () => waiter.resolve(this.grant(lock, count)));
    return waiter.promise;
  }

  /** Calls `proceed` at the next {@link free}. Returns a function that prevents that. */
  whenFree(key: string, proceed: () => void): () => void {
    const waiter = { key, proceed };
    this.waiting.add(waiter);
    return () => void this.waiting.delete(waiter);
  }

  private grantsOf(key: string, concerns: (recipe: LockKind) => boolean = () => true): Grant[] {
    return [...this.held]
      .filter(([, held]) => held.key === key && concerns(held.recipe))
      .map(([grant]) => grant);
  }
}

export class FakeLockService extends LockService {
  constructor(private readonly ensemble: FakeEnsemble) {
    super(ensemble.client);
  }

  protected override lockOf(...args: Parameters<LockService['lockOf']>): Lock {
    const lock = super.lockOf(...args);
    return replaceSteps(lock, {
      take: (options: AcquireOptions) => this.ensemble.take(lock, options),
      participants: async () => [],
      revoke: async () => this.ensemble.revoke(lock.key),
    });
  }
}

export class FakeSemaphoreService extends SemaphoreService {
  private readonly sharedNumbers = new Map<string, number>();

  constructor(private readonly ensemble: FakeEnsemble) {
    super(ensemble.client);
  }

  protected override semaphoreOf(key: string, query: SemaphoreQuery): Semaphore {
    const { ensemble } = this;
    const semaphore = super.semaphoreOf(key, query);
    return replaceSteps(semaphore, {
      take: (options: PermitOptions) => ensemble.take(semaphore, options),
      acquireEachChecked: ({ count = 1, ...options }: PermitOptions) =>
        Promise.all(Array.from({ length: count }, () => semaphore.acquire(options))),
      taken: async () => (ensemble.isBusy(key) ? Infinity : ensemble.permitsHeld(key)),
      participants: async () => [],
    });
  }

  protected override sharedPermits(path: string): SharedCount {
    return replaceSteps(super.sharedPermits(path), {
      get: async () => {
        const value = this.sharedNumbers.get(path);
        return value === undefined ? undefined : { value, version: 0 };
      },
      set: async (value: number) => void this.sharedNumbers.set(path, value),
    });
  }
}

export class FakeLeaderService extends LeaderService {
  private readonly terms = new Map<string, LeaseTerm>();
  /** The latest claimed ticks, by election and job. */
  private readonly ticks = new Map<string, number>();

  constructor(private readonly ensemble: FakeEnsemble) {
    super(ensemble.client);
  }

  /** Resolves to the leader alone. */
  override async participants(election: string): Promise<LeaderParticipant[]> {
    const other = this.ensemble.isBusy(election) ? OTHER_PROCESS : undefined;
    const term = this.terms.get(election);
    const id = term?.active ? term.participantId : other;
    const path = electionPath('', election);
    return id === undefined ? [] : [{ id, isLeader: true, path, since: new Date(), session: '0' }];
  }

  override async claimTick(
    _term: Term,
    election: string,
    job: string,
    tick: number,
    runsFirst: boolean,
  ): Promise<boolean> {
    const id = JSON.stringify([election, job]);
    const claimed = this.ticks.get(id);
    if (claimed !== undefined && claimed >= tick) return false;
    this.ticks.set(id, tick);
    return claimed !== undefined || runsFirst;
  }

  protected override join<C extends LeaderLatch | LeaderSelector>(
    election: string,
    candidate: C,
  ): C {
    const { ensemble, terms } = this;
    // It leads before `start` returns, unless the election is busy.
    const whenElected = (serve: (term: LeaseTerm) => Promise<void>, signal: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        const lead = () => {
          const { key, path, id } = candidate;
          const grant = ensemble.grant({ key, path, recipe: 'election' });
          const term = new LeaseTerm(grant.lease(key), id);
          terms.set(election, term);
          serve(term).then(resolve, reject);
        };
        if (!ensemble.isBusy(election)) return lead();
        const stop = ensemble.whenFree(election, lead);
        const leave = () => {
          stop();
          reject(signal.reason as Error);
        };
        signal.addEventListener('abort', leave, { once: true });
      });
    return super.join(election, replaceSteps(candidate, { whenElected }));
  }
}

function replaceSteps<T extends object>(recipe: T, steps: object): T {
  return Object.assign(recipe, steps);
}
