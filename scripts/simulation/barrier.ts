import { setTimeout as sleep } from 'node:timers/promises';
import type { History, Incarnation } from './history.js';
import { connect, ROOT } from './jobs.js';
import { checkLeft, recordUnexpected } from './properties.js';
import { runWorkload } from './run-seed.js';
import { type Setting, withoutNest } from './setting.js';
import type { RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of a double barrier: each process enters it, waits and leaves it, again and again. Some waits
 * have a short limit.
 */

type DistributedDoubleBarrier = import('nestjs-zookeeper/coordination').DistributedDoubleBarrier;
type World = import('nestjs-zookeeper/testing').World;

const PATH = `${ROOT}/barrier`;
/** The greatest number of milliseconds between two rounds of a process, and of most visits. */
const PAUSE = 60;
/** The probability that a visit takes up to a session timeout. */
const LONG_VISIT_PROBABILITY = 0.05;
const SHORT_WAIT = 300;
const LONG_WAIT = 4_000;
/** The probability that `leave()` has the short limit. */
const SHORT_LEAVE_PROBABILITY = 0.1;

/** A member from its `enter()` to its end. Times are virtual milliseconds, Infinity until then. */
interface Visit {
  readonly incarnation: Incarnation;
  /** The sessions in which it may have a znode. */
  readonly sessions: Set<string | undefined>;
  readonly asked: number;
  /** When `enter()` resolved. */
  entered: number;
  /** When `leave()` was called. */
  leaving: number;
  /** When `leave()` settled or `enter()` rejected. */
  ended: number;
  /** When its znode was certainly deleted. */
  gone: number;
  /** Whether `leave()` rejected, and the member was not lost before. */
  leaveFailed: boolean;
  /** The transaction that created `ready` in the round that it entered. Undefined if `ready` was deleted at once. */
  round: number | undefined;
  /** Whether the library has reported the loss of the member. */
  readonly isLost: () => boolean;
}

/** What a member does. Times are milliseconds, and each default is random. */
interface VisitOptions {
  /** The limit of `enter()`. */
  readonly enterWait?: number;
  /** How long the member is inside. */
  readonly stay?: number;
  /** The limit of `leave()`. */
  readonly leaveWait?: number;
  /** Called when it has entered. */
  readonly onEntered?: () => void;
}

/** The visits of all processes in one run. */
export class Visits {
  readonly #visits: Visit[] = [];

  /** Enters and leaves a barrier once. */
  async visit(
    barrier: DistributedDoubleBarrier,
    context: JobContext,
    options: VisitOptions = {},
  ): Promise<void> {
    const { history, incarnation, library, random, setting, world } = context;
    history.operations++;
    const visit: Visit = {
      ...{ incarnation, sessions: new Set(), asked: world.now },
      ...{ entered: Infinity, leaving: Infinity, ended: Infinity, gone: Infinity },
      ...{ leaveFailed: false, round: undefined },
      isLost: () => barrier.signal?.aborted === true,
    };
    this.#visits.push(visit);
    try {
      const enterWait = options.enterWait ?? random.pick([SHORT_WAIT, LONG_WAIT]);
      await history.recordLimitedCall(incarnation, 'enter()', enterWait, () =>
        barrier.enter({ wait: enterWait }),
      );
      visit.entered = world.now;
      this.#checkEntered(visit, barrier.members, history);
      this.#checkRound(visit, history);
      options.onEntered?.();
      const randomStay = () => {
        const isLong = random.chance(LONG_VISIT_PROBABILITY);
        return random.between(0, isLong ? setting.sessionTimeout : PAUSE);
      };
      await sleep(options.stay ?? randomStay());
      visit.leaving = world.now;
      const randomWait = () => (random.chance(SHORT_LEAVE_PROBABILITY) ? SHORT_WAIT : Infinity);
      const leaveWait = options.leaveWait ?? randomWait();
      await history.recordLimitedCall(incarnation, 'leave()', leaveWait, () =>
        barrier.leave({ wait: leaveWait }),
      );
      this.#checkLeft(visit, history);
    } catch (error) {
      visit.leaveFailed = visit.leaving < Infinity && !visit.isLost();
      if (error instanceof library.recipes.CoordinationError) return;
      recordUnexpected(error, context);
    } finally {
      this.#update(world);
      visit.ended = world.now;
      this.#update(world);
    }
  }

  /** Checks that no member of a running process waits. */
  checkSettled(history: History): void {
    for (const { incarnation, asked, ended } of this.#visits) {
      if (ended < Infinity || incarnation.ended < Infinity) continue;
      const why = `${incarnation.name}, which began to enter at ${asked.toFixed(1)} ms, has not left`;
      history.recordViolation('no member waits forever', why);
    }
  }

  /** Checks that enough members were present together, or that one that had entered was: the barrier was open then. */
  #checkEntered(visit: Visit, members: number, history: History): void {
    const { world } = history;
    this.#update(world);
    const others = this.#visits.filter((each) => each !== visit && each.gone >= visit.asked);
    if (others.some(({ entered }) => entered <= world.now)) return;
    const counts = [visit, ...others].map(({ asked: time }) => {
      const present = this.#visits.filter(({ asked, gone }) => asked <= time && gone >= time);
      // A process that enters again waits until its last znode is gone.
      return new Set(present.map(({ incarnation }) => incarnation)).size;
    });
    const most = Math.max(...counts);
    if (most >= members) return;
    const why = `${visit.incarnation.name} entered with ${most} members, and not ${members}`;
    history.recordViolation('a member enters when enough members have come', why);
  }

  /** Checks that a member whose last `leave()` failed has not entered the round of that call again. */
  #checkRound(visit: Visit, history: History): void {
    const { incarnation, asked } = visit;
    const ready = history.world.znodes(PATH).find(({ path }) => path === `${PATH}/ready`);
    visit.round = ready?.czxid;
    const last = this.#visits.findLast(
      (each) => each.incarnation === incarnation && each.ended <= asked,
    );
    if (!last?.leaveFailed || ready === undefined || last.round !== ready.czxid) return;
    const why = `${incarnation.name} entered the round of its last leave() again`;
    history.recordViolation('a member whose leave failed waits for the next round', why);
  }

  /** Checks that all members that were inside at the call of `leave()` have called it, too, or were lost. */
  #checkLeft(visit: Visit, history: History): void {
    const { world } = history;
    this.#update(world);
    const inside = this.#visits.filter(
      (each) => each !== visit && each.entered < visit.leaving && each.gone === Infinity,
    );
    for (const other of inside) {
      const { incarnation, leaving, sessions } = other;
      const isAlive = world.sessionIds.some((id) => sessions.has(id));
      if (leaving === Infinity && isAlive && !other.isLost()) {
        const why = `${visit.incarnation.name} left while ${incarnation.name} was inside`;
        history.recordViolation('a member leaves when all others leave', why);
      }
      // The reply to its own call may still be on its way.
      if (leaving < Infinity) other.gone = world.now;
    }
  }

  #update(world: World): void {
    for (const visit of this.#visits) {
      if (visit.ended === Infinity) visit.sessions.add(visit.incarnation.session);
      if (visit.gone === Infinity && !mayBePresent(visit, world)) visit.gone = world.now;
    }
  }
}

function mayBePresent({ ended, incarnation, sessions }: Visit, world: World): boolean {
  // A create of a process that ends may still be on its way, until its session ends.
  const ends = Math.min(incarnation.ended, incarnation.shutdownStarted) < Infinity;
  if (ended < Infinity && !ends) {
    return world.children(PATH).some(({ session }) => sessions.has(session));
  }
  return !ends || world.sessionIds.some((id) => sessions.has(id));
}

export interface BarrierProgram extends Program {
  /** Enters and leaves a barrier of this number of members. */
  lastRound(members: number): Promise<void>;
}

/** Runs members of a double barrier under the faults of one seed and checks what happened. */
export const runBarrier: RunSeed = (library, options) => {
  const visits = new Visits();
  return runWorkload(
    {
      adjust: withoutNest,
      start: (context) => startMember(visits, context),
      workAfterRecovery: 500,
      checkEnd: (...end) => checkBarrier(visits, ...end),
    },
    library,
    options,
  );
};

async function startMember(visits: Visits, context: JobContext): Promise<BarrierProgram> {
  const { acceptsWork, random, setting } = context;
  const { program, visit } = await connectMember(visits, context);
  // In some runs there are more processes than members.
  const members = Math.max(2, setting.processes.length - (setting.servers === 1 ? 1 : 0));
  const loop = async () => {
    while (acceptsWork()) {
      await sleep(random.between(0, PAUSE));
      await visit(members);
    }
  };
  program.finished = loop();
  return program;
}

/** Connects a process. Returns its program, and the function that enters and leaves a barrier of some members. */
export async function connectMember(visits: Visits, context: JobContext) {
  const { DistributedDoubleBarrier } = context.library.coordination;
  const client = await connect(context);
  let barrier: DistributedDoubleBarrier | undefined;
  const visit = (members: number, options?: VisitOptions) => {
    barrier ??= new DistributedDoubleBarrier(client, PATH, members);
    return visits.visit(barrier, context, options);
  };
  const program = {
    client,
    finished: Promise.resolve(),
    lastRound: async (count: number) => {
      const last = new DistributedDoubleBarrier(client, PATH, count);
      await last.enter({ wait: LONG_WAIT });
      await last.leave({ wait: LONG_WAIT });
    },
    leaveElections: async () => {},
    close: () => client.close(),
  };
  return { program, visit };
}

/** Checks that all processes can meet at the barrier after the faults, and that they leave nothing. */
export async function checkBarrier(
  visits: Visits,
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  visits.checkSettled(history);
  const { running } = workload;
  const rounds = running.map(async ({ name, process, program }) => {
    try {
      await process.run(() => (program as BarrierProgram).lastRound(running.length));
    } catch (error) {
      const why = `${name}: ${String(error)}`;
      history.recordViolation('all processes can meet after the faults', why);
    }
  });
  await Promise.all(rounds);
  for (const { path } of world.children(PATH)) {
    history.recordViolation('no znode is left', `${path} is left`);
  }
  await checkLeft(world, history, workload, setting);
}
