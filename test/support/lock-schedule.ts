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

/*
 * Random schedules for one lock, and what must be true of each of them: whoever holds excludes whom it
 * should; who came first is first where nothing disturbed it; everybody who may get the lock gets it;
 * tokens rise; nothing is left at the end. A session that the schedule ends holds nothing from then on,
 * whether its client has heard of it or not: only time, not the server's word, would be seen by its clock.
 */

const CLIENTS = 3;
/** Milliseconds in which somebody has to get a lock that is free, reconnects included. */
const PATIENCE = 30_000;

/** What a caller wants of the lock. */
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

/** One recipe under test. */
export interface Subject {
  readonly wants: readonly Want[];
  /** Whether each caller queues by a node of its own, instead of one for all of its process. */
  readonly nodeEach: boolean;
  acquire(
    client: ZkClient,
    path: string,
    want: Want,
    options: Pick<AcquireOptions, 'wait' | 'signal' | 'fairness' | 'linger'>,
  ): Promise<Lease>;
  downgrade?(client: ZkClient, path: string, lease: Lease): Promise<Lease>;
  /** Whether all of these may be inside at once. */
  together(inside: readonly Want[]): boolean;
  /** The directories that have to be empty at the end. */
  queues(path: string): string[];
}

interface Visit {
  readonly id: number;
  readonly client: number;
  want: Want;
  readonly wait: number;
  readonly controller: AbortController;
  /** It made a node of its own at once: the ensemble's order is that of these visits' calls. */
  readonly direct: boolean;
  lease?: Lease;
  /** Its place among all grants of the run. */
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

/** An embedded server with three clients for the file that calls it, and what has random schedules run on them. */
export function useSchedules(subject: Subject) {
  let server: EmbeddedZooKeeper;
  const clients: ZkClient[] = [];
  let runs = 0;
  beforeAll(async () => {
    server = await EmbeddedZooKeeper.start({ tickTime: 100 });
    for (let i = 0; i < CLIENTS; i++) {
      const client = new ZkClient({
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
  // The message of a failure contains its seed. FAST_CHECK_SEED repeats it, FAST_CHECK_SECONDS runs for longer.
  const { FAST_CHECK_SEED: seed, FAST_CHECK_SECONDS: seconds } = process.env;
  return async (disturbed: boolean) => {
    const end = performance.now() + Number(seconds ?? 2) * 1000;
    const property = fc.asyncProperty(stepsOf(subject, disturbed), async (steps) => {
      // Not by fast-check's own limits: they would not wait for a run that hangs.
      if (performance.now() > end) return;
      const run = new Run(subject, server, clients, `/run-${++runs}`, !disturbed);
      await run.execute(steps);
    });
    await fc.assert(property, {
      numRuns: seconds === undefined ? 250 : Number(seconds) * 500,
      // The network decides too: a shorter schedule would prove nothing.
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
    // To make it anew as well takes longer than the round trips that put arrivals in order.
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
        // Unknown where the schedule has ended it before and its client has not heard of it yet.
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
      // Callers that hand the lock on within their process go before others that came earlier.
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
        if (!allowed.includes(code)) this.#violate(`${told(visit)} failed: ${String(error)}`);
        if (this.orderly && idle && code === 'BUSY') {
          this.#violate(`${told(visit)} was refused though nobody was there`);
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
      this.#violate(`${told(visit)} has token ${fencingToken}, not above ${this.#highestToken}`);
    }
    if (fencingToken > this.#highestToken) this.#highestToken = fencingToken;
  }

  #checkInside(newcomer: Visit): void {
    if (!this.#counts(newcomer)) return;
    const inside = this.#visits.filter((visit) => this.#counts(visit));
    if (!this.subject.together(inside.map(({ want }) => want))) {
      this.#violate(`together inside: ${inside.map(told).join(', ')}`);
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
      if (!lost || this.orderly) this.#violate(`${told(visit)} to read failed: ${String(error)}`);
      await this.#release(visit);
    }
  }

  #release(visit: Visit): Promise<void> {
    visit.state = 'done';
    return visit.lease!.release();
  }

  /** What is still inside leaves, as long as it takes for everybody to have been in or to have given up. */
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
          [`nobody woke ${waiting.map(told).join(', ')}`, ...this.#violations].join('\n'),
        );
      }
    }
  }

  #checkOrder(): void {
    // A mere try for a permit has no place in a queue: it looks again as long as permits are left.
    const queued = this.#visits.filter(({ want, wait }) => want.kind !== 'permits' || wait > 0);
    for (const [index, earlier] of queued.entries()) {
      for (const later of queued.slice(index + 1)) {
        const ordered = earlier.client === later.client || (earlier.direct && later.direct);
        const both = earlier.granted !== undefined && later.granted !== undefined;
        if (ordered && both && this.#exclusive(earlier, later)) {
          if (earlier.granted! > later.granted!) {
            this.#violate(`${told(later)} was granted before ${told(earlier)}`);
          }
        }
      }
    }
  }

  /** A permit goes to whoever asks first, other recipes order only those who exclude each other. */
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

  /** Whoever holds, by its own account, in a session that is not known to have ended. */
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

  /** The requests of a session are answered in their order: what was called before has its node then. */
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

function told({ id, client, want, wait }: Visit): string {
  return `visit ${id} (client ${client}, ${want.kind} × ${want.count}, wait ${wait})`;
}
