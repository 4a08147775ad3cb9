import type { AsyncLocalStorage } from 'node:async_hooks';
import { ZkClient, type ZkClientOptions } from '../../client/index.js';
import { connectWire } from '../../client/wire-transport.js';
import { type Ensemble, ZK_ENSEMBLE } from '../../zk.ensemble.js';
import type { Overridable } from '../test-zookeeper.js';
import type { Network } from './network.js';
import { Link } from './link.js';
import { milliseconds } from './options.js';
import type { Random } from './random.js';
import type { Actor, Event, Scheduler } from './scheduler.js';
import type { VirtualTimer } from './virtual-timer.js';

/** Milliseconds that a timer takes at least, however its clock rounds. */
const SHORTEST_WAIT = 0.001;

/** Milliseconds that a turn of the event loop takes at most before the next immediates run. */
const TURN = 0.05;

/** The group of immediates in the scheduler; timers use their delay, which is at least 1. */
const IMMEDIATES = 0;

/** Milliseconds, about 100 years. */
const LONGEST_STEP = 3.2e12;

/** Where every virtual wall clock starts: 2026-01-01T00:00:00Z. */
export const WALL_START = Date.UTC(2026, 0, 1);

/** Rejects what a process was asked to run when it crashes before it is done. */
export class ProcessCrashedError extends Error {
  override readonly name = 'ProcessCrashedError';
}

interface World {
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly contexts: AsyncLocalStorage<SimulatedProcess>;
  readonly network: Network;
  /** Records a fault in the trace. */
  note(process: string, event: string): void;
}

/**
 * A process of a simulation: code that shares an event loop and clocks, and that can stand still or end
 * while the others continue. All processes share this Node process's modules, but the library keeps its own
 * state apart for each of them; do the same with your own.
 *
 * @publicApi
 */
export class SimulatedProcess implements Actor {
  /** Connects the process to the servers. */
  readonly link: Link;
  /** Timers that have not fired, immediates included. */
  readonly timers = new Set<VirtualTimer>();
  /** Timers whose number was asked for. */
  readonly timersById = new Map<number, VirtualTimer>();
  lastTimerId = 0;
  busyUntil = 0;
  #paused = false;
  #crashed = false;
  #held: Event[] = [];
  #lastTurn = 0;
  #wallStep = 0;
  readonly #pending = new Set<() => void>();

  constructor(
    readonly id: number,
    readonly name: string,
    private readonly world: World,
    /** How fast its clocks run: 1.01 gains one per cent. */
    readonly clockRate = 1,
  ) {
    this.link = new Link(name, world.random.fork());
  }

  /** Whether the process stands still. */
  get paused(): boolean {
    return this.#paused;
  }

  get crashed(): boolean {
    return this.#crashed;
  }

  /**
   * Runs `fn` in this process and resolves with its result.
   *
   * @throws ProcessCrashedError where the process crashed before or meanwhile; what `fn` throws
   */
  run<T>(fn: () => T | Promise<T>): Promise<T> {
    const { scheduler, contexts } = this.world;
    const caller = contexts.getStore() ?? scheduler.running!;
    const result = new Promise<T>((resolve, reject) => {
      if (this.#crashed) return reject(this.#crash());
      const abandon = () => {
        reject(this.#crash());
        // A crash is no failure of the scenario, even where nobody waits for the result.
        result.catch(() => {});
      };
      this.#pending.add(abandon);
      const settle = <A>(done: (value: A) => void) => {
        return (value: A) => {
          if (this.#pending.delete(abandon)) {
            scheduler.schedule(caller, scheduler.time, 'call', () => done(value));
          }
        };
      };
      const call = () => {
        const started = contexts.run(this, async () => fn());
        started.then(settle(resolve), settle(reject));
      };
      scheduler.schedule(this, scheduler.time, 'call', call);
    });
    return result;
  }

  /**
   * Resolves to a connected client of this process, over the wire transport. Close it in the process:
   * `process.run(() => client.close())`.
   *
   * @param options as of {@link ZkClient}, except for the addresses of the servers
   */
  client(options: Omit<ZkClientOptions, 'connectString' | 'transport'> = {}): Promise<ZkClient> {
    return this.run(async () => {
      const { connectString, connect } = this.ensemble;
      const client = new ZkClient({ ...options, connectString }, connect);
      await client.connect();
      return client;
    });
  }

  /** Connects every ZkModule connection of a Nest testing module to the simulated servers. */
  override<Builder extends Overridable<Builder>>(builder: Builder): Builder {
    return builder.overrideProvider(ZK_ENSEMBLE).useValue(this.ensemble);
  }

  /** How a connection of this process reaches the servers; the value of the provider that {@link override} sets. */
  get ensemble(): Ensemble {
    const { network } = this.world;
    return {
      connectString: network.connectString,
      connect: connectWire(({ ip, port }) => network.connect(this, `${ip}:${port}`)),
    };
  }

  /**
   * Stops the whole process, as SIGSTOP or a long garbage collection does. Its clocks and the servers'
   * go on. Replies and timers that come due meanwhile wait.
   */
  pause(): void {
    if (this.#paused || this.#crashed) return;
    this.#paused = true;
    this.world.note(this.name, 'paused');
  }

  /** Continues after {@link pause}: what came due meanwhile happens now, timers or replies first. */
  resume(): void {
    if (!this.#paused || this.#crashed) return;
    this.#paused = false;
    this.world.note(this.name, 'resumed');
    const { scheduler, random } = this.world;
    const held = this.#held;
    this.#held = [];
    const early = random.pick(['timer', 'message', undefined]);
    const first = held.filter(({ kind }) => kind === early);
    const rest = held.filter(({ kind }) => kind !== early);
    for (const event of [...first, ...rest]) scheduler.reschedule(event);
  }

  /**
   * Keeps the process busy for so many milliseconds, as a long computation does. Code of the process that
   * calls it continues afterwards; other callers continue at once.
   */
  block(ms: number): void {
    milliseconds('the time of block', ms, 0);
    this.world.note(this.name, `blocked for ${ms} ms`);
    this.world.scheduler.block(this, ms);
  }

  /**
   * Ends the process at once: no code of it runs again, not even a `finally`. Its connections break;
   * with `silently` the servers do not notice, as when a machine loses its power. Start another process of
   * the same name to replace it.
   */
  crash({ silently = false } = {}): void {
    if (this.#crashed) return;
    this.#crashed = true;
    this.world.note(this.name, 'crashed');
    this.#held = [];
    this.timers.clear();
    this.world.network.crashed(this, silently);
    for (const abandon of this.#pending) abandon();
    this.#pending.clear();
  }

  /** Sets the wall clock of the process forward, or back where `ms` is negative. */
  stepClock(ms: number): void {
    milliseconds('the step of a clock', ms, -LONGEST_STEP, LONGEST_STEP);
    this.world.note(this.name, `wall clock stepped by ${ms} ms`);
    this.#wallStep += ms;
  }

  /** As `performance.now()`. */
  monotonicTime(): number {
    return this.world.scheduler.readClock() * this.clockRate;
  }

  /** As `Date.now()`. */
  wallTime(): number {
    return WALL_START + Math.floor(this.monotonicTime() + this.#wallStep);
  }

  hold(event: Event): void {
    this.#held.push(event);
  }

  /** @param delay milliseconds of its own clock; undefined for the next turn of its event loop */
  scheduleTimer(delay: number | undefined, fire: () => void): Event {
    const { scheduler, random } = this.world;
    const { time } = scheduler;
    if (delay === undefined) {
      // All immediates that wait run in one turn. Those that they start run in the next one.
      if (this.#lastTurn <= time) this.#lastTurn = time + random.next() * TURN;
      return scheduler.schedule(this, this.#lastTurn, 'turn', fire, IMMEDIATES);
    }
    // Node counts from the whole millisecond of its loop's clock, so a timer may fire almost 1 ms early.
    const due = Math.floor(time * this.clockRate) + delay;
    return scheduler.schedule(
      this,
      Math.max(due / this.clockRate, time + SHORTEST_WAIT),
      'timer',
      fire,
      delay,
    );
  }

  #crash(): ProcessCrashedError {
    return new ProcessCrashedError(`the process ${this.name} crashed`);
  }
}
