import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import {
  type AcquireOptions,
  CoordinationError,
  type Lease,
  type Session,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { grantOf } from '../../lib/recipes/internals/grant.js';
import { fourLetterWord } from './real-zookeeper.js';
import { nodesUnder } from './recipe-nodes.js';
import { clientDefaults, copiedServer } from './servers.js';

/*
 * Random schedules for one lock, and the invariants of each run: holders exclude each other as the
 * recipe says, undisturbed grants keep the order of arrival, every caller that can get the lock
 * gets it, fencing tokens rise, and no znode is left. A holder counts as lost from the moment at
 * which the schedule ends its session, even if its client has not been notified: a client detects
 * the loss by its clock only after the session deadline.
 */

const CLIENTS = 3;
/**
 * Limit in milliseconds within which a free lock must be granted to a waiter, reconnects included.
 */
const PATIENCE = 30_000;

/** What a caller requests. */
export interface Want {
  readonly kind: 'exclusive' | 'read' | 'write' | 'permits';
  readonly count: number;
}

type Step =
  | { type: 'acquire'; client: number; want: Want; wait: number }
  | { type: 'release'; which: number }
  | { type: 'cancel'; which: number }
  | { type: 'downgrade'; which: number }
  | { type: 'pause'; client: number }
  | { type: 'drop' }
  | { type: 'expire'; client: number };

/** The recipe under test. */
export interface Subject {
  readonly wants: readonly Want[];
  /** Whether each caller queues with a znode of its own instead of one for the process. */
  readonly nodeEach: boolean;
  acquire(
    client: ZkClient,
    path: string,
    want: Want,
    options: Pick<AcquireOptions, 'wait' | 'signal' | 'fairness' | 'linger'>,
  ): Promise<Lease>;
  downgrade?(client: ZkClient, path: string, lease: Lease): Promise<Lease>;
  /** Whether the holders may hold the lock together. */
  together(inside: readonly Want[]): boolean;
  /** The directories that must be empty at the end. */
  queues(path: string): string[];
}

interface Visit {
  readonly id: number;
  readonly client: number;
  want: Want;
  readonly wait: number;
  readonly controller: AbortController;
  /**
   * Whether it created a node of its own at once, so that the order of the ensemble is the order of
   * the calls.
   */
  readonly direct: boolean;
  lease?: Lease;
  /** Its position among all grants of the run. */
  granted?: number;
  state: 'waiting' | 'inside' | 'done';
  settled: Promise<void>;
}

function stepsOf(subject: Subject, disturbed: boolean): fc.Arbitrary<Step[]> {
  const client = fc.nat({ max: CLIENTS - 1 });
  const which = fc.nat({ max: 20 });
  const acquire = fc.record({
    type: fc.constant('acquire' as const),
    client,
    want: fc.constantFrom(...subject.wants),
    wait: fc.oneof(
      { weight: 4, arbitrary: fc.constant(Infinity) },
      { weight: 1, arbitrary: fc.constant(0) },
      { weight: 2, arbitrary: fc.integer({ min: 1, max: 25 }) },
    ),
  });
  const on = <T extends 'release' | 'cancel' | 'downgrade'>(type: T) =>
    fc.record({ type: fc.constant(type), which });
  const rare = disturbed
    ? [
        { weight: 2, arbitrary: fc.record({ type: fc.constant('drop' as const) }) },
        { weight: 2, arbitrary: fc.record({ type: fc.constant('expire' as const), client }) },
      ]
    : [];
  return fc.array(
    fc.oneof(
      { weight: 10, arbitrary: acquire },
      { weight: 7, arbitrary: on('release') },
      { weight: 2, arbitrary: on('cancel') },
      { weight: subject.downgrade ? 2 : 0, arbitrary: on('downgrade') },
      { weight: 4, arbitrary: fc.record({ type: fc.constant('pause' as const), client }) },
      ...rare,
    ),
    { minLength: 4, maxLength: 30 },
  );
}

/** Starts an embedded server and three clients, and returns what runs random schedules on them. */
export function useSchedules(subject: Subject) {
  let server: EmbeddedZooKeeper;
  const clients: ZkClient[] = [];
  let runs = 0;
  beforeAll(async () => {
    server = await EmbeddedZooKeeper.start({
      server: copiedServer,
      tickTime: 100,
      containerCheckInterval: 100,
      fourLetterWords: ['wchs'],
    });
    for (let i = 0; i < CLIENTS; i++) {
      const client = new ZkClient({
        ...clientDefaults,
        connectString: server.connectString,
        sessionTimeout: 6000,
        retry: { type: 'forever', delay: 20 },
      });
      clients.push(client);
      await client.connect();
    }
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await server.stop();
  });
  // A failure message contains its seed. FAST_CHECK_SEED repeats it; FAST_CHECK_SECONDS runs for
  // longer.
  const { FAST_CHECK_SEED: seed, FAST_CHECK_SECONDS: seconds } = process.env;
  return async (disturbed: boolean) => {
    const end = performance.now() + Number(seconds ?? 2) * 1000;
    const property = fc.asyncProperty(stepsOf(subject, disturbed), async (steps) => {
      // fast-check's own limits would not wait for a run that hangs.
      if (performance.now() > end) return;
      const run = new Run(subject, server, clients, `/run-${++runs}`, !disturbed);
      await run.execute(steps);
    });
    await fc.assert(property, {
      numRuns: seconds === undefined ? 250 : Number(seconds) * 500,
      // The timing of the network matters too, so a shrunk schedule would prove nothing.
      endOnFailure: true,
      ...(seed === undefined ? {} : { seed: Number(seed) }),
    });
  };
}

class Run {
  readonly #visits: Visit[] = [];
  readonly #ended = new Set<Session>();
  readonly #violations: string[] = [];
  #grants = 0;
  #highestToken = 0n;

  constructor(
    private readonly subject: Subject,
    private readonly server: EmbeddedZooKeeper,
    private readonly clients: readonly ZkClient[],
    private readonly path: string,
    private readonly orderly: boolean,
  ) {}

  async execute(steps: readonly Step[]): Promise<void> {
    const queues = this.subject.queues(this.path);
    // Creating the directory as well would take longer than the round trips that put arrivals in
    // order.
    if (!queues.includes(this.path)) await this.clients[0]!.create(this.path);
    for (const queue of queues) {
      await this.clients[0]!.ensureContainers(queue);
    }
    for (const step of steps) await this.#do(step);
    await this.#finish();
    if (this.orderly) this.#checkOrder();
    await this.#checkNothingLeft();
    if (this.#violations.length > 0) throw new Error(this.#violations.join('\n'));
  }

  async #do(step: Step): Promise<void> {
    switch (step.type) {
      case 'acquire':
        this.#acquire(step);
        if (this.orderly) await this.#roundTrips(step.client);
        return;
      case 'release': {
        const visit = pick(this.#inside, step.which);
        const released = visit && this.#release(visit);
        if (this.orderly) await released;
        return;
      }
      case 'cancel':
        pick(this.#waiting, step.which)?.controller.abort(new Error('cancelled'));
        return;
      case 'downgrade':
        return this.#downgrade(step.which);
      case 'pause':
        return this.#roundTrips(step.client, 1);
      case 'drop':
        return this.server.dropConnections();
      case 'expire': {
        const session = await this.clients[step.client]!.session();
        this.#ended.add(session);
        // Unknown if the schedule has ended the session and its client has not been notified yet.
        await this.server.expireSession(session.id).catch(() => undefined);
      }
    }
  }

  #acquire({ client, want, wait }: Extract<Step, { type: 'acquire' }>): void {
    const controller = new AbortController();
    const idle = this.#visits.every(({ state, lease }) => state === 'done' && lease !== undefined);
    const visit: Visit = {
      id: this.#visits.length,
      client,
      want,
      wait,
      controller,
      direct:
        this.subject.nodeEach ||
        this.#visits.every((other) => other.client !== client || other.state === 'done'),
      state: 'waiting',
      settled: Promise.resolve(),
    };
    this.#visits.push(visit);
    const options = {
      wait,
      signal: controller.signal,
      // Callers that get the lock by a hand-over within their process overtake earlier callers of
      // other processes.
      ...(this.orderly ? { fairness: 'strict' as const } : { linger: visit.id % 3 === 0 ? 20 : 0 }),
    };
    visit.settled = this.subject
      .acquire(this.clients[client]!, this.path, want, options)
      .then((lease) => this.#enter(visit, lease))
      .catch((error: unknown) => {
        visit.state = 'done';
        const code = error instanceof CoordinationError ? error.code : String(error);
        const allowed = [
          ...(wait === 0 ? ['BUSY'] : wait < Infinity ? ['TIMEOUT'] : []),
          ...(controller.signal.aborted ? ['CANCELLED'] : []),
        ];
        if (!allowed.includes(code)) this.#violate(`${label(visit)} failed: ${String(error)}`);
        if (this.orderly && idle && code === 'BUSY') {
          this.#violate(`${label(visit)} was refused although the lock was free`);
        }
      });
  }

  #enter(visit: Visit, lease: Lease): void {
    visit.lease = lease;
    visit.granted = ++this.#grants;
    visit.state = 'inside';
    this.#checkInside(visit);
    if (!this.#counts(visit) || visit.want.kind === 'permits') return;
    const { fencingToken } = lease;
    if (visit.want.kind !== 'read' && fencingToken <= this.#highestToken) {
      this.#violate(`${label(visit)} has token ${fencingToken}, not above ${this.#highestToken}`);
    }
    if (fencingToken > this.#highestToken) this.#highestToken = fencingToken;
  }

  #checkInside(newcomer: Visit): void {
    if (!this.#counts(newcomer)) return;
    const inside = this.#visits.filter((visit) => this.#counts(visit));
    if (!this.subject.together(inside.map(({ want }) => want))) {
      this.#violate(`held together: ${inside.map(label).join(', ')}`);
    }
  }

  async #downgrade(which: number): Promise<void> {
    const visit = pick(
      this.#inside.filter(({ want }) => want.kind === 'write'),
      which,
    );
    if (!visit) return;
    const { client, lease } = visit;
    try {
      visit.lease = await this.subject.downgrade!(this.clients[client]!, this.path, lease!);
      visit.want = { ...visit.want, kind: 'read' };
      this.#checkInside(visit);
    } catch (error) {
      const lost = error instanceof CoordinationError && error.code === 'LEASE_LOST';
      if (!lost || this.orderly) this.#violate(`${label(visit)} to read failed: ${String(error)}`);
      await this.#release(visit);
    }
  }

  #release(visit: Visit): Promise<void> {
    visit.state = 'done';
    return visit.lease!.release();
  }

  /** All holders release, until every caller has held the lock or given up. */
  async #finish(): Promise<void> {
    for (;;) {
      for (const visit of this.#inside) void this.#release(visit);
      const waiting = this.#waiting;
      if (waiting.length === 0) return;
      const timeout = new AbortController();
      const late = delay(PATIENCE, 'late', { signal: timeout.signal }).catch(() => undefined);
      const first = await Promise.race([late, ...waiting.map(({ settled }) => settled)]);
      timeout.abort();
      if (first === 'late') {
        for (const { controller } of waiting) controller.abort();
        throw new Error(
          [`nothing woke ${waiting.map(label).join(', ')}`, ...this.#violations].join('\n'),
        );
      }
    }
  }

  #checkOrder(): void {
    // With wait: 0 a caller has no place in the queue of permits: it polls while permits are left.
    const queued = this.#visits.filter(({ want, wait }) => want.kind !== 'permits' || wait > 0);
    for (const [index, earlier] of queued.entries()) {
      for (const later of queued.slice(index + 1)) {
        const ordered = earlier.client === later.client || (earlier.direct && later.direct);
        const both = earlier.granted !== undefined && later.granted !== undefined;
        if (ordered && both && this.#exclusive(earlier, later)) {
          if (earlier.granted! > later.granted!) {
            this.#violate(`${label(later)} was granted before ${label(earlier)}`);
          }
        }
      }
    }
  }

  /**
   * Whether the recipe orders the two: permits are granted in the order of arrival, other locks
   * order only callers that exclude each other.
   */
  #exclusive(a: Visit, b: Visit): boolean {
    return a.want.kind === 'permits' || !this.subject.together([a.want, b.want]);
  }

  async #checkNothingLeft(): Promise<void> {
    const end = performance.now() + PATIENCE;
    let left: string[];
    do {
      await this.#roundTrips(0, 1);
      const queues = this.subject.queues(this.path);
      const nodes = await Promise.all(queues.map((queue) => nodesUnder(this.clients[0]!, queue)));
      const watches = await fourLetterWord(this.server.port, 'wchs');
      left = nodes.flat();
      if (!/Total watches:0\b/.test(watches)) left.push(watches.trim());
    } while (left.length > 0 && performance.now() < end);
    if (left.length > 0) this.#violate(`left behind: ${left.join(', ')}`);
  }

  /** Whether it believes that it holds the lock, in a session that the schedule has not ended. */
  #counts({ state, lease }: Visit): boolean {
    return (
      state === 'inside' &&
      lease!.held &&
      !this.#ended.has(grantOf(lease!)!.ownership.position.session)
    );
  }

  get #inside(): Visit[] {
    return this.#visits.filter(({ state }) => state === 'inside');
  }

  get #waiting(): Visit[] {
    return this.#visits.filter(({ state }) => state === 'waiting');
  }

  /**
   * Resolves when the requests sent so far are answered, so that earlier callers have their nodes.
   */
  async #roundTrips(client: number, count = 3): Promise<void> {
    for (let i = 0; i < count; i++) await this.clients[client]!.exists(this.path);
  }

  #violate(what: string): void {
    this.#violations.push(what);
  }
}

function pick(from: readonly Visit[], which: number): Visit | undefined {
  return from[which % from.length];
}

function label({ id, client, want, wait }: Visit): string {
  return `visit ${id} (client ${client}, ${want.kind} × ${want.count}, wait ${wait})`;
}
