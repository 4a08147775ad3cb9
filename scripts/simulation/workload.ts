import { setTimeout as sleep } from 'node:timers/promises';
import type { History, Incarnation } from './history.js';
import type { Setting } from './setting.js';
import type { Library, Random } from './types.js';

type World = import('nestjs-zookeeper/testing').World;
type SimulatedProcess = import('nestjs-zookeeper/testing').SimulatedProcess;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;

/** Milliseconds after the end of the last wait within which the deadlock detection stops its timer. */
const DEADLOCK_DETECTION_PERIOD = 500;

/** The jobs of one process, and the functions that end them. */
export interface Program {
  readonly client: ZkClient;
  /** Resolves when each job has finished its current operation and stopped. */
  readonly finished: Promise<void>;
  /** Leaves the elections. Afterwards only the connection is open. */
  leaveElections(): Promise<void>;
  /** Closes the connection, also while the jobs are running. */
  close(): Promise<void>;
}

/** Everything that the jobs of one process need. */
export interface JobContext {
  readonly world: World;
  readonly library: Library;
  readonly history: History;
  readonly setting: Setting;
  readonly random: Random;
  readonly incarnation: Incarnation;
  readonly process: SimulatedProcess;
  /** Returns whether jobs may start new operations. */
  acceptsWork(): boolean;
  /** Returns whether no fault was active between two times or could still have an effect then. */
  isFaultFree(from: number, until: number): boolean;
}

/** Starts the program of a process. */
export type StartProgram = (context: JobContext) => Promise<Program>;

/** An incarnation of a process, with the program that it runs. */
export interface Member {
  readonly name: string;
  readonly incarnation: Incarnation;
  readonly process: SimulatedProcess;
  /** Resolves when the program has started or failed to start. */
  readonly started: Promise<void>;
  /** Undefined until it has started. */
  program: Program | undefined;
  readonly client: ZkClient | undefined;
  shuttingDown: boolean;
}

/** Starts, crashes and shuts down the processes of a run. */
export class Workload {
  /** The processes that run, by their names. */
  readonly #current = new Map<string, Member>();
  /** Shutdowns that have not ended, by the names of their processes. */
  readonly #shutdowns = new Map<string, Promise<void>>();

  constructor(
    private readonly world: World,
    private readonly library: Library,
    private readonly history: History,
    private readonly setting: Setting,
    private readonly startProgram: StartProgram,
    private readonly random: Random,
    private readonly acceptsWork: () => boolean,
    private readonly isFaultFree: (from: number, until: number) => boolean,
  ) {}

  /** Returns the running incarnation of a process. */
  current(name: string): Member | undefined {
    return this.#current.get(name);
  }

  get running(): Member[] {
    return [...this.#current.values()];
  }

  /** Starts a process unless it is running. If its last incarnation is shutting down, the start waits for that. */
  start(name: string): void {
    if (this.#current.has(name)) return;
    const ending = this.#shutdowns.get(name);
    if (ending) return void ending.then(() => this.start(name));
    const { world, library, history, setting } = this;
    const { clockRate, nest } = setting.processes.find((each) => each.name === name)!;
    const process = world.process(name, { clockRate });
    const member: Member = {
      name,
      process,
      incarnation: {
        name,
        clockRate,
        session: undefined,
        holderSleepsUntil: 0,
        shutdownStarted: Infinity,
        waitsForHolders: nest,
        ended: Infinity,
      },
      get client() {
        return this.program?.client;
      },
      program: undefined,
      shuttingDown: false,
      started: Promise.resolve(),
    };
    const context: JobContext = {
      world,
      library,
      history,
      setting,
      random: this.random.fork(),
      incarnation: member.incarnation,
      process,
      acceptsWork: () => this.acceptsWork() && !member.shuttingDown,
      isFaultFree: this.isFaultFree,
    };
    const begin = async () => {
      member.program = await this.startProgram(context);
    };
    Object.assign(member, {
      started: process.run(begin).catch((error: unknown) => this.#failed(member, error)),
    });
    this.#current.set(name, member);
  }

  crash(member: Member, silently: boolean): void {
    member.process.crash({ silently });
    this.history.recordEnd(member.incarnation);
    this.#current.delete(member.name);
  }

  /** Shuts a process down gracefully while its jobs are running. */
  shutDown(member: Member): void {
    member.shuttingDown = true;
    member.incarnation.shutdownStarted = this.world.now;
    const { process, program } = member;
    if (!program) return this.crash(member, false);
    this.#current.delete(member.name);
    const end = async () => {
      await program.close();
      await program.finished;
      await sleep(DEADLOCK_DETECTION_PERIOD);
    };
    const ended = process
      .run(end)
      .then(() => this.#checkNoTimersLeft(member))
      .catch((error: unknown) => this.#failed(member, error))
      .finally(() => {
        process.crash();
        this.history.recordEnd(member.incarnation);
        this.#shutdowns.delete(member.name);
      });
    this.#shutdowns.set(member.name, ended);
  }

  /**
   * Checks, as the first code of a process after a pause, which of its leases are held, and counts each of these checks
   * as work.
   */
  checkHeldLeases({ incarnation }: Member): void {
    for (const record of this.history.heldBy(incarnation)) this.history.recordWork(record);
  }

  #checkNoTimersLeft({ process, name }: Member): void {
    const { size } = process.timers;
    if (size === 0) return;
    this.history.recordViolation(
      'no timer is left',
      `${size} timers of ${name} are left after its shutdown`,
    );
  }

  #failed({ process, name }: Member, error: unknown): void {
    if (process.crashed) return;
    this.history.recordViolation(
      'every process starts and shuts down',
      `${name}: ${String(error)}`,
    );
  }
}
