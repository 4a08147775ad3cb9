import type { Acquire, Library, Violation } from './types.js';

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type World = import('nestjs-zookeeper/testing').World;

export type Mode = Acquire['mode'];

/** What a lease and a term of leadership have in common. */
export interface Holding {
  readonly held: boolean;
  readonly signal: AbortSignal;
  readonly fencingToken: bigint;
}

/** Which lock is asked for, and how. */
export interface Wanted {
  readonly key: string;
  /** The parent znode; undefined where one znode cannot show the grant. */
  readonly path: string | undefined;
  readonly mode: Mode;
  /** How many permits are asked for; 1 for a lock. */
  readonly count: number;
  /** How many permits there are, where its znodes are those of a semaphore. */
  readonly permits?: number;
  /** It takes the key only together with others, so it may hold it before all are granted. */
  readonly partial?: boolean;
}

/** A life of a process: from its start to its crash or end. */
export interface Life {
  readonly name: string;
  readonly clockRate: number;
  /**
   * The present or latest session of its client, in hexadecimal. A client must not be asked for it elsewhere: it
   * looks at the clock of the process that asks.
   */
  session: string | undefined;
  /** When its shutdown began; Infinity until then. */
  closing: number;
  /** Whether its shutdown waits until held leases are released. */
  readonly waitsForHolders: boolean;
  /** When it crashed or ended. */
  ended: number;
}

/** A request for a lease, until it is granted or refused. */
export interface Request extends Wanted {
  readonly life: Life;
  readonly options: AcquireOptions;
  readonly asked: number;
  /** When its signal aborts; Infinity for never. */
  readonly cancelled: number;
  /** When it was granted or refused; Infinity while it waits. */
  settled: number;
  error: unknown;
}

/** A lease from its grant to its end. */
export interface LeaseRecord<L extends Holding = Holding> {
  readonly request: Request;
  readonly life: Life;
  readonly key: string;
  readonly mode: Mode;
  readonly count: number;
  readonly token: bigint;
  readonly session: string | undefined;
  readonly granted: number;
  /** When its holder released it or was notified of its loss; Infinity until then. */
  ended: number;
  outcome: 'held' | 'released' | 'lost' | 'crashed';
  /** When the release was answered, so that another process can be granted the lock; Infinity until then. */
  freed: number;
  /** When its holder saw that it holds the lease and began a piece of work. */
  readonly work: number[];
  /** When a leader's work ended after its term; the next leader must not begin before. */
  stopped: number | undefined;
  readonly lease: L;
}

/** Everything that the workload asked for and was granted. Times are virtual milliseconds. */
export class History {
  readonly requests: Request[] = [];
  readonly leases: LeaseRecord[] = [];
  readonly violations: Violation[] = [];
  /** Nodes of locks that somebody else deleted. */
  readonly deletions: { readonly at: number; readonly key: string; readonly session: string }[] =
    [];
  /** When somebody asked holders for a lock, and when that was answered. */
  readonly revocations: { readonly key: string; readonly from: number; until: number }[] = [];
  readonly #open = new Set<LeaseRecord>();
  readonly #cancelled = new WeakMap<AbortSignal, number>();

  constructor(
    readonly world: World,
    readonly library: Library,
    private readonly onGrant: (record: LeaseRecord) => void,
    private readonly onWork: (record: LeaseRecord) => void,
  ) {}

  /** @param after milliseconds from now on after which the signal aborts */
  cancels(signal: AbortSignal, after: number): void {
    this.#cancelled.set(signal, this.world.now + after);
  }

  ask(life: Life, wanted: Wanted, options: AcquireOptions = {}): Request {
    const asked = this.world.now;
    const { signal } = options;
    const cancelled = (signal && this.#cancelled.get(signal)) ?? Infinity;
    const waiting = { settled: Infinity, error: undefined };
    const request = { ...wanted, life, options, asked, cancelled, ...waiting };
    this.requests.push(request);
    return request;
  }

  refused(request: Request, error: unknown): void {
    request.settled = this.world.now;
    request.error = error;
  }

  /** Records a grant at the moment at which its holder can first act on it. */
  granted<L extends Holding>(
    request: Request,
    lease: L,
    token = lease.fencingToken,
  ): LeaseRecord<L> {
    const granted = (request.settled = this.world.now);
    const record: LeaseRecord<L> = {
      request,
      life: request.life,
      key: request.key,
      mode: request.mode,
      count: request.count,
      token,
      session: request.life.session,
      granted,
      ended: Infinity,
      outcome: 'held',
      freed: Infinity,
      work: [],
      stopped: undefined,
      lease,
    };
    this.leases.push(record);
    if (!lease.held) {
      // A term may be over when its listeners are called. A lease is not: the grant looks at the clock.
      if (record.mode !== 'lead') {
        const why = `${record.life.name} was granted ${record.key} when it was lost already`;
        this.violation('a lease is held when it is granted', why);
      }
      this.#end(record, 'lost');
      return record;
    }
    this.#open.add(record);
    lease.signal.addEventListener('abort', () => this.#end(record, 'lost'), { once: true });
    this.world.note(`granted ${record.key} ${record.mode} ${token}`);
    this.onGrant(record);
    return record;
  }

  /** Called before the release is sent. */
  releasing(record: LeaseRecord): void {
    this.#end(record, 'released');
  }

  /** Called when the release was answered. */
  released(record: LeaseRecord): void {
    record.freed = Math.min(record.freed, this.world.now);
  }

  /** Called when a leader's work has ended. */
  stopped(record: LeaseRecord): void {
    record.stopped = this.world.now;
  }

  async revoking(key: string, revoked: Promise<void>): Promise<void> {
    const revocation = { key, from: this.world.now, until: Infinity };
    this.revocations.push(revocation);
    try {
      await revoked;
    } finally {
      revocation.until = this.world.now;
    }
  }

  /** The process is no more; what it held ends with it. */
  ended(life: Life): void {
    life.ended = this.world.now;
    for (const record of this.#open) if (record.life === life) this.#end(record, 'crashed');
  }

  /** Leases that their holders believe to hold. */
  openOf(life: Life): LeaseRecord[] {
    return [...this.#open].filter((record) => record.life === life);
  }

  /** Whether the holder may work; notes the work that it does then. */
  works(record: LeaseRecord): boolean {
    if (!record.lease.held) return false;
    record.work.push(this.world.now);
    this.onWork(record);
    return true;
  }

  violation(property: string, message: string, at = this.world.now): void {
    this.violations.push({ property, message, at });
  }

  /** What a timeline shows. */
  acquires(): Acquire[] {
    const now = this.world.now;
    const granted = new Map(this.leases.map((record) => [record.request, record]));
    return this.requests.map((request) => {
      const { life, key, mode, asked, settled } = request;
      const record = granted.get(request);
      const common = { process: life.name, key, mode, asked };
      if (!record) {
        const ended = Math.min(settled, life.ended, now);
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
    this.#open.delete(record);
    if (record.outcome !== 'held') return;
    record.outcome = outcome;
    record.ended = this.world.now;
  }
}
