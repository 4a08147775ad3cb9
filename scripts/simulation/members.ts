import { setTimeout as sleep } from 'node:timers/promises';
import type { History, Life } from './history.js';
import type { Setting } from './setting.js';
import { startJobs } from './jobs.js';
import { startApplication } from './nest-jobs.js';
import type { Library, Random } from './types.js';

type World = import('nestjs-zookeeper/testing').World;
type SimulatedProcess = import('nestjs-zookeeper/testing').SimulatedProcess;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;

/** Milliseconds after which the search for deadlocks has stopped its timer, once no wait is left. */
const DETECTOR_ROUND = 500;

/** What runs in a process: its jobs, and how they end. */
export interface Program {
  readonly client: ZkClient;
  /** Resolves when the jobs have ended, each after what it has begun. */
  readonly finished: Promise<void>;
  /** Leaves the elections, so that nothing but the connection is left. */
  leave(): Promise<void>;
  /** Closes the connection, whatever the jobs do. */
  close(): Promise<void>;
}

/** What a program is made of. */
export interface Context {
  readonly world: World;
  readonly library: Library;
  readonly history: History;
  readonly setting: Setting;
  readonly random: Random;
  readonly life: Life;
  readonly process: SimulatedProcess;
  /** Whether jobs may begin something new. */
  working(): boolean;
  /** Whether no fault was in force or could still have an effect. */
  calm(from: number, until: number): boolean;
}

export interface Member {
  readonly name: string;
  readonly life: Life;
  readonly process: SimulatedProcess;
  readonly started: Promise<void>;
  program: Program | undefined;
  readonly client: ZkClient | undefined;
  leaving: boolean;
}

/** The processes of a run, each with the program that it runs in its present life. */
export class Members {
  readonly #present = new Map<string, Member>();
  /** Shutdowns that have not ended, by the names of their processes. */
  readonly #ending = new Map<string, Promise<void>>();
  readonly all: Member[] = [];

  constructor(
    private readonly world: World,
    private readonly library: Library,
    private readonly history: History,
    private readonly setting: Setting,
    private readonly random: Random,
    private readonly working: () => boolean,
    private readonly calm: (from: number, until: number) => boolean,
  ) {}

  present(name: string): Member | undefined {
    return this.#present.get(name);
  }

  get running(): Member[] {
    return [...this.#present.values()];
  }

  /** Starts the process, or the one that takes its place. */
  start(name: string): void {
    if (this.#present.has(name)) return;
    const ending = this.#ending.get(name);
    if (ending) return void ending.then(() => this.start(name));
    const { world, library, history, setting } = this;
    const { clockRate, nest } = setting.processes.find((each) => each.name === name)!;
    const process = world.process(name, { clockRate });
    const member: Member = {
      name,
      process,
      life: {
        name,
        clockRate,
        session: undefined,
        closing: Infinity,
        waitsForHolders: nest,
        ended: Infinity,
      },
      get client() {
        return this.program?.client;
      },
      program: undefined,
      leaving: false,
      started: Promise.resolve(),
    };
    const context: Context = {
      world,
      library,
      history,
      setting,
      random: this.random.fork(),
      life: member.life,
      process,
      working: () => this.working() && !member.leaving,
      calm: this.calm,
    };
    const begin = async () => {
      member.program = await (nest ? startApplication(context) : startJobs(context));
    };
    Object.assign(member, {
      started: process.run(begin).catch((error: unknown) => this.#failed(member, error)),
    });
    this.#present.set(name, member);
    this.all.push(member);
  }

  crash(member: Member, silently: boolean): void {
    member.process.crash({ silently });
    this.history.ended(member.life);
    this.#present.delete(member.name);
  }

  /** Ends the process in good order, whatever its jobs are at; another one may start at once. */
  shutDown(member: Member): void {
    member.leaving = true;
    member.life.closing = this.world.now;
    const { process, program } = member;
    if (!program) return this.crash(member, false);
    this.#present.delete(member.name);
    const end = async () => {
      await program.close();
      await program.finished;
      await sleep(DETECTOR_ROUND);
    };
    const ended = process
      .run(end)
      .then(() => this.#checkEnded(member))
      .catch((error: unknown) => this.#failed(member, error))
      .finally(() => {
        process.crash();
        this.history.ended(member.life);
        this.#ending.delete(member.name);
      });
    this.#ending.set(member.name, ended);
  }

  /** Asks, as the first code after a pause, which leases are held, and takes that for work. */
  askWhatIsHeld({ life, name }: Member): void {
    for (const record of this.history.openOf(life)) {
      const { lease } = record;
      const held = this.history.works(record);
      if (!held && !lease.signal.aborted) {
        const message = `${name} does not hold ${record.key} any more, but its signal did not abort`;
        this.history.violation('a lost lease aborts its signal', message);
      }
    }
  }

  /** A closed process has no timer left. */
  #checkEnded({ process, name }: Member): void {
    const { size } = process.timers;
    if (size === 0) return;
    this.history.violation('no timer is left', `${size} timers of ${name} after its shutdown`);
  }

  #failed({ process, name }: Member, error: unknown): void {
    if (process.crashed) return;
    this.history.violation('every process starts and shuts down', `${name}: ${String(error)}`);
  }
}
