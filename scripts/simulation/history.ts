import type { Acquire, Library, Violation } from './types.js';

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type World = import('nestjs-zookeeper/testing').World;

export type Mode = Acquire['mode'];

/** The common part of a lease and a term of leadership. */
export interface LeaseLike {
  readonly held: boolean;
  readonly signal: AbortSignal;
  readonly fencingToken: bigint;
}

/** The lock that a request acquires, with its mode and count. */
export interface RequestedLock {
  readonly key: string;
  /** The parent znode of the queue. Undefined if the checks cannot compare the grant with one queue. */
  readonly path: string | undefined;
  readonly mode: Mode;
  /** The number of permits to acquire; 1 for a lock. */
  readonly count: number;
  /** The number of permits of the semaphore, if the znodes of the lock are those of a semaphore. */
  readonly permits?: number;
  /** Whether the lock is acquired as part of a multi-lock, which may hold it for some time before its own grant. */
  readonly partOfMultiLock?: boolean;
}

/** One incarnation of a process: from its start to its crash or shutdown. */
export interface Incarnation {
  readonly name: string;
  readonly clockRate: number;
  /**
   * The id of the current or latest session of its client, in hexadecimal. The checks use this copy, because
   * `client.sessionId` reads the clock of the process that calls it.
   */
  session: string | undefined;
  /**
   * The virtual time before which the machine falls asleep when a caller of a burst holds its lock; 0 if it does not fall
   * asleep.
   */
  holderSleepsUntil: number;
  /** When its shutdown started; Infinity until then. */
  shutdownStarted: number;
  /** Whether its shutdown waits until held leases are released. */
  readonly waitsForHolders: boolean;
  /** When it crashed or its shutdown ended; Infinity until then. */
  ended: number;
}

/** One call that acquires a lease. */
export interface Request extends RequestedLock {
  readonly incarnation: Incarnation;
  readonly options: AcquireOptions;
  /** When the call was made. */
  readonly asked: number;
  /** When the signal of the call aborts; Infinity for never. */
  readonly abortsAt: number;
  /** When the call returned a lease or failed; Infinity while it waits. */
  settled: number;
  /** The error with which the call failed. */
  error: unknown;
}

/** A lease from its grant to its end. */
export interface LeaseRecord<L extends LeaseLike = LeaseLike> {
  readonly request: Request;
  readonly incarnation: Incarnation;
  readonly key: string;
  readonly mode: Mode;
  readonly count: number;
  readonly token: bigint;
  readonly session: string | undefined;
  readonly granted: number;
  /** When the holder started the release or was notified of the loss; Infinity until then. */
  ended: number;
  outcome: 'held' | 'released' | 'lost' | 'crashed';
  /** When the release resolved, so that another process can acquire the lock; Infinity until then. */
  freed: number;
  /** The times at which the holder checked that it holds the lease and did a piece of work. */
  readonly workTimes: number[];
  /** When the holder was notified of a request for revocation; Infinity until then, undefined if it does not listen. */
  revoked: number | undefined;
  /** When the work of a leader ended, possibly after its term. The next leader must not start earlier. */
  stopped: number | undefined;
  readonly lease: L;
}

/** A call that must settle within a limit, also without a connection. */
export interface LimitedCall {
  readonly incarnation: Incarnation;
  /** What the call does, for the message of a violation. */
  readonly what: string;
  /** Milliseconds of the clock of the process. */
  readonly limit: number;
  readonly asked: number;
  /** Infinity while it waits. */
  settled: number;
}

interface Deletion {
  readonly key: string;
  readonly session: string;
  /** When it was requested. Without a connection it is sent later. */
  readonly from: number;
  /** When it was answered; Infinity until then. */
  until: number;
  /** Whether the answer said that the node is deleted. */
  confirmed: boolean;
}

/** The session of a client that has a new one. */
interface ReplacedSession {
  readonly session: string;
  readonly incarnation: Incarnation;
  /** When the client had its new session. */
  readonly from: number;
  /** When the old one must have ended. */
  readonly until: number;
  /** Whether it existed then. */
  remains: boolean;
}

interface Revocation {
  readonly key: string;
  readonly from: number;
  until: number;
  /** Whether `revoke()` has written the request into the znodes of all holders. */
  confirmed?: boolean;
}

/** The requests of the workload, the leases that it was granted, and the violations. Times are virtual milliseconds. */
export class History {
  readonly requests: Request[] = [];
  readonly leases: LeaseRecord[] = [];
  readonly violations: Violation[] = [];
  readonly limitedCalls: LimitedCall[] = [];
  /** The number of operations that were checked in a workload without leases. */
  operations = 0;
  /** The requests of the operator to delete lock nodes. */
  readonly deletions: Deletion[] = [];
  /** The calls of `revoke()`, from the call to its end. */
  readonly revocations: Revocation[] = [];
  /** The sessions of clients that have a new one. */
  readonly replacedSessions: ReplacedSession[] = [];
  readonly #held = new Set<LeaseRecord>();
  readonly #abortTimes = new WeakMap<AbortSignal, number>();

  constructor(
    readonly world: World,
    readonly library: Library,
    private readonly onGrant: (record: LeaseRecord) => void,
    private readonly onWork: (record: LeaseRecord) => void,
  ) {}

  /**
   * Records when a signal will abort.
   *
   * @param after virtual milliseconds from now
   */
  recordAbortTime(signal: AbortSignal, after: number): void {
    this.#abortTimes.set(signal, this.world.now + after);
  }

  /** Records that a call acquires a lock from now on. */
  recordRequest(
    incarnation: Incarnation,
    lock: RequestedLock,
    options: AcquireOptions = {},
  ): Request {
    const asked = this.world.now;
    const { signal } = options;
    const abortsAt = (signal && this.#abortTimes.get(signal)) ?? Infinity;
    const waiting = { settled: Infinity, error: undefined };
    const request = { ...lock, incarnation, options, asked, abortsAt, ...waiting };
    this.requests.push(request);
    return request;
  }

  /** Records that a call failed to acquire its lock. */
  recordRefusal(request: Request, error: unknown): void {
    request.settled = this.world.now;
    request.error = error;
  }

  /** Records a grant. To be called as soon as the holder can use the lease. */
  recordGrant<L extends LeaseLike>(request: Request, lease: L): LeaseRecord<L> {
    const granted = (request.settled = this.world.now);
    const record: LeaseRecord<L> = {
      request,
      incarnation: request.incarnation,
      key: request.key,
      mode: request.mode,
      count: request.count,
      token: lease.fencingToken,
      session: request.incarnation.session,
      granted,
      ended: Infinity,
      outcome: 'held',
      freed: Infinity,
      workTimes: [],
      revoked: undefined,
      stopped: undefined,
      lease,
    };
    this.leases.push(record);
    if (!lease.held) {
      // A term may have ended when its listeners are called. A lease must be held, because the grant reads the clock.
      if (record.mode !== 'lead') {
        const why = `${record.incarnation.name} was granted ${record.key} when the lease was already lost`;
        this.recordViolation('a lease is held when it is granted', why);
      }
      this.#end(record, 'lost');
      return record;
    }
    this.#held.add(record);
    lease.signal.addEventListener('abort', () => this.#end(record, 'lost'), { once: true });
    this.world.note(`granted ${record.key} ${record.mode} ${record.token}`);
    this.onGrant(record);
    return record;
  }

  /** Records that the holder starts to release a lease. */
  recordReleaseStart(record: LeaseRecord): void {
    this.#end(record, 'released');
  }

  /** Records that the release of a lease has resolved. */
  recordReleaseEnd(record: LeaseRecord): void {
    record.freed = Math.min(record.freed, this.world.now);
  }

  /**
   * Records the session of a connected client.
   *
   * @param closedWithin virtual milliseconds within which the client closes its last session
   */
  recordSession(incarnation: Incarnation, session: string | undefined, closedWithin: number): void {
    const { world } = this;
    const last = incarnation.session;
    incarnation.session = session;
    if (last === undefined || last === session) return;
    const until = world.now + closedWithin;
    const replaced = { session: last, incarnation, from: world.now, until, remains: false };
    this.replacedSessions.push(replaced);
    world.at(until, () => (replaced.remains = world.sessionIds.includes(last)));
  }

  /** Records that the work of a leader has ended. */
  recordStop(record: LeaseRecord): void {
    record.stopped = this.world.now;
  }

  /** Records a call of `revoke()` until it settles. */
  async recordRevocation(key: string, revoked: Promise<void>): Promise<void> {
    const revocation: Revocation = { key, from: this.world.now, until: Infinity };
    this.revocations.push(revocation);
    try {
      await revoked;
      revocation.confirmed = true;
    } finally {
      revocation.until = this.world.now;
    }
  }

  /** Makes a call with a limit in milliseconds, and records how long it takes. */
  async recordLimitedCall<T>(
    incarnation: Incarnation,
    what: string,
    limit: number,
    act: () => Promise<T>,
  ): Promise<T> {
    const call = { incarnation, what, limit, asked: this.world.now, settled: Infinity };
    this.limitedCalls.push(call);
    try {
      return await act();
    } finally {
      call.settled = this.world.now;
    }
  }

  /** Records that an incarnation has ended, and its leases with it. */
  recordEnd(incarnation: Incarnation): void {
    incarnation.ended = this.world.now;
    for (const record of this.#held)
      if (record.incarnation === incarnation) this.#end(record, 'crashed');
  }

  /** Returns the leases of an incarnation that it has not released and of whose loss it was not notified. */
  heldBy(incarnation: Incarnation): LeaseRecord[] {
    return [...this.#held].filter((record) => record.incarnation === incarnation);
  }

  /** Records a piece of work if the holder still holds its lease. Returns whether it does. */
  recordWork(record: LeaseRecord): boolean {
    const { lease, key, incarnation } = record;
    const isReleased = record.outcome !== 'held';
    // In turns, because each of them must notice a loss by itself, and then the other one shows it.
    const asksSignal = !isReleased && record.workTimes.length % 2 === 1;
    if (asksSignal ? lease.signal.aborted : !lease.held) {
      if (!isReleased && (lease.held || !lease.signal.aborted)) {
        const why = `${incarnation.name} no longer holds ${key}, which only one of "held" and "signal" says`;
        this.recordViolation('a lost lease aborts its signal', why);
      }
      return false;
    }
    record.workTimes.push(this.world.now);
    this.onWork(record);
    return true;
  }

  recordViolation(property: string, message: string, at = this.world.now): void {
    this.violations.push({ property, message, at });
  }

  /** Returns all requests with their results, for a timeline. */
  acquires(): Acquire[] {
    const now = this.world.now;
    const granted = new Map(this.leases.map((record) => [record.request, record]));
    return this.requests.map((request) => {
      const { incarnation, key, mode, asked, settled } = request;
      const record = granted.get(request);
      const common = { process: incarnation.name, key, mode, asked };
      if (!record) {
        const ended = Math.min(settled, incarnation.ended, now);
        const outcome = this.#outcome(request);
        return { ...common, granted: undefined, token: undefined, ended, outcome };
      }
      const outcome = record.outcome === 'held' ? 'released' : record.outcome;
      const ended = Math.min(record.ended, now);
      return { ...common, granted: record.granted, token: record.token, ended, outcome };
    });
  }

  #outcome({ error, settled }: Request): Acquire['outcome'] {
    const { LockBusyError, LockTimeoutError, WaitCancelledError } = this.library.recipes;
    if (settled === Infinity) return 'crashed';
    if (error instanceof LockBusyError) return 'busy';
    if (error instanceof LockTimeoutError) return 'timed out';
    return error instanceof WaitCancelledError ? 'cancelled' : 'failed';
  }

  #end(record: LeaseRecord, outcome: LeaseRecord['outcome']): void {
    this.#held.delete(record);
    if (record.outcome !== 'held') return;
    record.outcome = outcome;
    record.ended = this.world.now;
  }
}
