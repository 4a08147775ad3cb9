import type { PlannedFault } from '../simulation/fault-plan.js';
import { FaultWindows } from '../simulation/fault-windows.js';
import { History } from '../simulation/history.js';
import { ROOT } from '../simulation/jobs.js';
import { type checkEnd, checkHistory } from '../simulation/properties.js';
import {
  MAX_HOLD_AT_LEAST,
  notificationTime,
  recoveryTime,
  type Setting,
  SYNC_LIMIT,
  TICK_TIME,
} from '../simulation/setting.js';
import type { EmbeddedServerKind, Library, Violation } from '../simulation/types.js';
import { type JobContext, type Program, Workload } from '../simulation/workload.js';
import { ZnodeChecks } from '../simulation/znode-checks.js';
import { toPlannedFault } from './planned-faults.js';
import { PROCESSES, type ScenarioSetting, SESSION_TIMEOUT, settingOf } from './setting.js';

type ExploredFault = import('nestjs-zookeeper/testing').ExploredFault;
type ExploreOptions = NonNullable<Parameters<typeof import('nestjs-zookeeper/testing').explore>[0]>;
type ExploreResult = import('nestjs-zookeeper/testing').ExploreResult;
type SimulatedZnode = import('nestjs-zookeeper/testing').SimulatedZnode;
type World = import('nestjs-zookeeper/testing').World;

/** Virtual milliseconds within which the work must end, with all faults and all that follows from them. */
const WORK_LIMIT = 30_000;
/** Virtual milliseconds after which a run that has not ended fails. */
const RUN_LIMIT = 120_000;

/** The program of one process. */
export interface ScenarioProgram extends Program {
  /** Does the work of the process. To be called when all processes are connected. */
  work(): Promise<void>;
}

/** What the processes of one run do, and what is checked at its end. */
export interface ScenarioRun {
  start(context: JobContext): Promise<ScenarioProgram>;
  readonly checkEnd: typeof checkEnd;
}

/** A small scenario, which runs under every fault at every moment. */
export interface Scenario extends ScenarioSetting {
  /** What it covers, in a few words. */
  readonly covers: string;
  /** The servers whose behaviour the simulated servers copy. Default: ZooKeeper. */
  readonly kinds?: readonly EmbeddedServerKind[];
  /** Starts a run. */
  run(): ScenarioRun;
}

/** The violations of a run. The message is that of the first one. */
export class ViolationError extends Error {
  constructor([first]: readonly Violation[]) {
    super(`${first!.property}: ${first!.message}`);
  }
}

/** Runs a scenario under every fault at every moment. */
export async function exploreScenario(
  library: Library,
  scenario: Scenario,
  server: EmbeddedServerKind,
  options: Pick<ExploreOptions, 'pairs' | 'plan' | 'shard' | 'maxSeconds'>,
): Promise<ExploreResult> {
  const { processes = PROCESSES, servers = 1 } = scenario;
  const { explore, standardFaults } = library.testing;
  const addresses = Array.from({ length: servers }, (_, index) => `10.0.0.${index + 1}:2181`);
  const targets = { processes, servers: addresses, sessionTimeout: SESSION_TIMEOUT };
  let current: Run | undefined;
  const faults = standardFaults(targets).map((fault) => ({
    ...fault,
    start: (world: World) => {
      const planned = toPlannedFault(fault, world.now, addresses);
      if (planned) current!.faults.push(planned);
      return startFault(fault, world, current!);
    },
  }));
  const { latency, lag } = settingOf(scenario, server);
  const simulation = { seed: 1, tickTime: TICK_TIME, syncLimit: SYNC_LIMIT, limit: RUN_LIMIT };
  // Outside of the runs, because a run that reaches its limit does not end its code.
  const unsubscribe = library.recipes.onDeadlock(({ message }) =>
    current?.history.recordViolation('no false deadlock is reported', message),
  );
  // The error of a listener, which the library cannot throw.
  const onWarning = ({ message }: Error) =>
    current?.history.recordViolation('no warning is emitted', message);
  process.on('warning', onWarning);
  try {
    return await explore(
      { ...simulation, server, servers, latency, lag, faults, ...options },
      (world) => {
        current = new Run(world, library, settingOf(scenario, server), scenario.run());
        return current.check();
      },
    );
  } finally {
    process.off('warning', onWarning);
    unsubscribe();
  }
}

/** One run of a scenario. */
class Run {
  /** The faults that have started. */
  readonly faults: PlannedFault[] = [];
  readonly history: History;
  readonly workload: Workload;
  readonly #faultWindows: FaultWindows;

  constructor(
    private readonly world: World,
    private readonly library: Library,
    private readonly setting: Setting,
    private readonly scenario: ScenarioRun,
  ) {
    const { faults } = this;
    // Without a fault, the checks allow less.
    Object.defineProperty(setting, 'faultsUntil', { get: () => faults.length });
    this.#faultWindows = new FaultWindows(this.faults, setting);
    this.history = new History(
      world,
      library,
      (record) => world.at(record.granted, () => znodes.check(record)),
      (record) => world.at(world.now, () => znodes.checkHeld(record)),
    );
    const znodes = new ZnodeChecks(this.history, setting, this.#faultWindows);
    this.workload = new Workload(
      world,
      library,
      this.history,
      setting,
      (context) => scenario.start(context),
      new library.testing.Random(1),
      () => world.now < WORK_LIMIT,
      (from, until) => this.#faultWindows.isFaultFree(from, until),
    );
  }

  /**
   * Runs the programs and checks what happened.
   *
   * @throws ViolationError
   */
  async check(): Promise<void> {
    const { world, history, setting, workload, scenario } = this;
    world.exploring = false;
    for (const { name } of setting.processes) workload.start(name);
    await Promise.all(workload.running.map(({ started }) => started));
    world.exploring = true;
    const ended = await Promise.race([this.#work(), world.sleep(WORK_LIMIT)]);
    world.exploring = false;
    if (!ended) {
      history.recordViolation('the work ends', `it has not ended after ${WORK_LIMIT} ms`);
    }
    await world.sleep(Math.max(0, this.#faultWindows.lastEnd - world.now));
    if (this.faults.length > 0) await world.sleep(recoveryTime(setting));
    await world.sleep(MAX_HOLD_AT_LEAST + 4 * notificationTime(setting));
    await scenario.checkEnd(world, history, workload, setting);
    checkHistory(history, setting, this.#faultWindows);
    if (history.violations.length > 0) throw new ViolationError(history.violations);
  }

  /** Resolves to true when the programs have done their work or their processes have crashed. */
  async #work(): Promise<boolean> {
    const { ProcessCrashedError } = this.library.testing;
    await Promise.all(
      this.workload.running.map(({ process, program }) =>
        process
          .run(() => (program as ScenarioProgram).work())
          .catch((error: unknown) => {
            if (!(error instanceof ProcessCrashedError)) throw error;
          }),
      ),
    );
    return true;
  }
}

/**
 * Records the deletion of the oldest znode that a session has in a queue of locks or candidates. The queues of a semaphore
 * do not count, because the session may hold other permits.
 */
function recordDeletion(
  { path, session }: SimulatedZnode,
  before: readonly SimulatedZnode[],
  { deletions, world }: History,
): void {
  const parent = path.slice(0, path.lastIndexOf('/') + 1);
  const [first] = before
    .filter((each) => each.session === session && each.path.startsWith(parent))
    .sort((a, b) => a.czxid - b.czxid);
  if (first?.path !== path || /\/(leases|locks)\/$/.test(parent)) return;
  const key = path.split('/')[2]!;
  deletions.push({ key, session: session!, from: world.now, until: world.now, confirmed: true });
}

/** Starts a fault so that the workload and the history learn of it. */
function startFault(
  fault: ExploredFault,
  world: World,
  { workload, history }: Run,
): (() => void) | void {
  const { name, target } = fault;
  const member = workload.current(target);
  if (/crash/.test(name) && member) return workload.crash(member, name.startsWith('silent'));
  if (name.startsWith('deletion')) {
    const before = world.znodes(ROOT);
    const end = fault.start(world);
    const left = new Set(world.znodes(ROOT).map(({ path }) => path));
    const deleted = before.find(({ path }) => !left.has(path));
    if (deleted) recordDeletion(deleted, before, history);
    return end;
  }
  if (name.startsWith('revocation')) {
    // Of any lock, because the fault does not say of which one.
    for (const { key } of history.requests) {
      history.revocations.push({ key, from: world.now, until: world.now });
    }
  }
  return fault.start(world);
}
