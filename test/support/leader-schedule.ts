import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll } from 'vitest';
import {
  type Lease,
  type LeaderLatch,
  type LeaderSelector,
  type Session,
  type Term,
  ZkClient,
} from 'nestjs-zookeeper/recipes';
import { grantOf } from '../../lib/recipes/internals/grant.js';
import { Link } from './link.js';
import { untilNothingLeft } from './recipe-nodes.js';
import { clientDefaults, type TestServer } from './servers.js';
import { expire } from './sessions.js';

/*
 * Random schedules for one election, and the invariants of each run: no two candidates lead at
 * once, the fencing tokens rise, every candidate leads at the end, and no znode is left. A
 * candidate counts as no longer leading from the moment at which the schedule ends its session,
 * even if its client has not been notified: a client detects the loss by its clock only after the
 * session deadline.
 */

const CLIENTS = 3;
const CANDIDATES = 6;
/** Limit in milliseconds within which some candidate must lead, reconnects included. */
const PATIENCE = 30_000;

export interface Contestant {
  readonly candidate: LeaderLatch | LeaderSelector;
  /** Ends the candidate's present term, if there is one. */
  resign(): void;
}

type Enter = (client: ZkClient, path: string, id: string) => Contestant;

type Step =
  | { type: 'resign' | 'leave'; which: number }
  | { type: 'pause' | 'drop' | 'expire'; client: number };

const which = fc.nat({ max: CANDIDATES - 1 });
const client = fc.nat({ max: CLIENTS - 1 });
const schedule = fc.array(
  fc.oneof<fc.MaybeWeightedArbitrary<Step>[]>(
    { weight: 8, arbitrary: fc.record({ type: fc.constant('resign'), which }) },
    { weight: 4, arbitrary: fc.record({ type: fc.constant('leave'), which }) },
    { weight: 6, arbitrary: fc.record({ type: fc.constant('pause'), client }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('drop'), client }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('expire'), client }) },
  ),
  { minLength: 4, maxLength: 40 },
);

/** Starts three clients of the file's server, and returns what runs random schedules on them. */
export function useElections(server: TestServer, enter: Enter) {
  const clients: ZkClient[] = [];
  const links: Link[] = [];
  beforeAll(async () => {
    for (let i = 0; i < CLIENTS; i++) {
      const link = await Link.to(server.port);
      const { connectString } = link;
      const retry = { type: 'forever', delay: 20 } as const;
      const connected = new ZkClient({
        ...clientDefaults,
        connectString,
        sessionTimeout: 6000,
        retry,
      });
      links.push(link);
      clients.push(connected);
      await connected.connect();
    }
  });
  afterAll(async () => {
    await Promise.all(clients.map((connected) => connected.close()));
    for (const link of links) await link[Symbol.asyncDispose]();
  });
  // A failure message contains its seed. FAST_CHECK_SEED repeats it; FAST_CHECK_SECONDS runs for
  // longer.
  const { FAST_CHECK_SEED: seed, FAST_CHECK_SECONDS: seconds } = process.env;
  return async () => {
    const end = performance.now() + Number(seconds ?? 2) * 1000;
    const property = fc.asyncProperty(schedule, async (steps) => {
      // fast-check's own limits would not wait for a run that hangs.
      if (performance.now() > end) return;
      await new Run(server, clients, links, enter).execute(steps);
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
  readonly #path: string;
  readonly #contestants: Contestant[] = [];
  readonly #leaving: Promise<void>[] = [];
  readonly #terms: Term[] = [];
  readonly #ended = new Set<Session>();
  readonly #violations: string[] = [];
  #entered = 0;

  constructor(
    private readonly server: TestServer,
    private readonly clients: readonly ZkClient[],
    private readonly links: readonly Link[],
    private readonly enter: Enter,
  ) {
    this.#path = server.path('election');
  }

  async execute(steps: readonly Step[]): Promise<void> {
    for (let i = 0; i < CANDIDATES; i++) this.#contestants.push(this.#join());
    for (const step of steps) await this.#do(step);
    await this.#finish();
    await untilNothingLeft(this.server, this.clients[0]!, this.#path);
    if (this.#violations.length > 0) throw new Error(this.#violations.join('\n'));
  }

  async #do(step: Step): Promise<void> {
    switch (step.type) {
      case 'resign':
        return this.#contestants[step.which]!.resign();
      case 'leave':
        this.#leaving.push(this.#leave(this.#contestants[step.which]!));
        this.#contestants[step.which] = this.#join();
        return;
      case 'pause':
        await this.clients[step.client]!.exists(this.#path);
        return;
      case 'drop':
        await this.links[step.client]!.cut();
        return;
      case 'expire': {
        const session = await this.clients[step.client]!.session();
        if (this.#ended.has(session)) return;
        this.#ended.add(session);
        await expire(session, this.server.port);
      }
    }
  }

  #join(): Contestant {
    const id = `candidate ${this.#entered}`;
    const at = this.clients[this.#entered++ % CLIENTS]!;
    const contestant = this.enter(at, this.#path, id);
    contestant.candidate.onChange((term) => term && this.#begin(term));
    contestant.candidate.start();
    return contestant;
  }

  async #leave({ candidate, resign }: Contestant): Promise<void> {
    const left = candidate.close();
    if (candidate.hasLeadership) this.#violate(`${candidate.id} leads after its close`);
    resign();
    await left;
  }

  #begin(term: Term): void {
    if (!this.#counts(term)) return;
    for (const other of this.#terms) {
      if (this.#counts(other)) this.#violate(`${label(term)} leads beside ${label(other)}`);
      if (other.fencingToken >= term.fencingToken) {
        this.#violate(`${label(term)} leads after ${label(other)}`);
      }
    }
    this.#terms.push(term);
  }

  /** Whether it believes that it leads, in a session that the schedule has not ended. */
  #counts(term: Term): boolean {
    const { lease } = term as unknown as { lease: Lease };
    return term.active && !this.#ended.has(grantOf(lease)!.ownership.position.session);
  }

  /** Each leader leaves in turn, until every candidate has left. */
  async #finish(): Promise<void> {
    const left = new Set(this.#contestants);
    let since = performance.now();
    while (left.size > 0) {
      const leader = [...left].find(({ candidate }) => candidate.hasLeadership);
      if (leader) {
        left.delete(leader);
        since = performance.now();
        this.#leaving.push(this.#leave(leader));
      } else if (performance.now() - since > PATIENCE) {
        this.#violate(`none of ${[...left].map(({ candidate }) => candidate.id).join()} leads`);
        for (const stuck of left) this.#leaving.push(this.#leave(stuck));
        left.clear();
      } else {
        await delay(1);
      }
    }
    await Promise.all(this.#leaving);
  }

  #violate(what: string): void {
    this.#violations.push(what);
  }
}

function label({ participantId, fencingToken }: Term): string {
  return `${participantId} (token ${fencingToken})`;
}
