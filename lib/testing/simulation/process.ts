import type { AsyncLocalStorage } from 'node:async_hooks';
import { ZkClient, type ZkClientOptions } from '../../client/index.js';
import { connectWire } from '../../client/transport/wire-transport.js';
import { type Ensemble, ZK_ENSEMBLE } from '../../zk.tokens.js';
import type { Overridable } from '../test-zookeeper.js';
import type { Network } from './network.js';
import { Link } from './link.js';
import { milliseconds } from './options.js';
import type { Random } from './random.js';
import type { Event, Scheduler } from './scheduler.js';
import type { VirtualTimer } from './virtual-timer.js';

/** The least number of milliseconds that a timer takes, however the clock of its process rounds. */
const SHORTEST_WAIT = 0.001;

/** The greatest number of milliseconds between two turns of an event loop. */
const TURN = 0.05;

/** The scheduler's group of all immediates. The group of a timer is its delay, which is at least 1. */
const IMMEDIATES = 0;

/** Milliseconds, about 100 years. */
const LONGEST_STEP = 3.2e12;

/** The time at which every virtual wall clock starts: 2026-01-01T00:00:00Z. */
export const WALL_START = Date.UTC(2026, 0, 1);

/** Rejects the promise of `run()` when the process crashes before the function has ended. */
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
 * A process of a simulation. It has an event loop and clocks of its own, and it can be paused or crash while
 * other processes continue. All processes share the modules of the Node process. The library keeps the state of
 * each process apart; code under test must do the same.
 *
 * Faults of a process that has crashed do nothing.
 *
 * @publicApi
 */
export class SimulatedProcess {
  /** The network between the process and the servers. */
  readonly link: Link;
  /**
   * The timers that the code has converted to a number, by that number.
   *
   * @internal
   */
  readonly timersById = new Map<number, VirtualTimer>();
  /** @internal */
  lastTimerId = 0;
  /** @internal */
  busyUntil = 0;
  readonly #timers = new Set<object>();
  #paused = false;
  #crashed = false;
  #held: Event[] = [];
  #lastTurn = 0;
  #wallStep = 0;
  readonly #pending = new Set<() => void>();

  /** @internal */
  constructor(
    /** @internal */
    readonly id: number,
    /** The name of the process, or the address of a server. */
    readonly name: string,
    private readonly world: World,
    /** The rate of the clocks of the process. A clock of rate 1.01 gains one per cent. */
    readonly clockRate = 1,
  ) {
    this.link = new Link(this, world.random.fork());
  }

  /** The timers that have not fired, immediates included. */
  get timers(): ReadonlySet<object> {
    return this.#timers;
  }

  /** Whether the process is paused. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Whether the process has crashed. */
  get crashed(): boolean {
    return this.#crashed;
  }

  /**
   * Runs `fn` in this process and resolves with its result.
   *
   * @throws ProcessCrashedError if the process crashes before `fn` has ended; the error that `fn` throws
   */
  run<T>(fn: () => T | Promise<T>): Promise<T> {
    const { scheduler, contexts } = this.world;
    const caller = contexts.getStore() ?? scheduler.running!;
    const result = new Promise<T>((resolve, reject) => {
      if (this.#crashed) return reject(this.#crash());
      const abandon = () => {
        reject(this.#crash());
        // A crash must not count as an unhandled rejection where the scenario does not await the result.
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
   * @param options the options of {@link ZkClient} except `connectString` and `transport`. The servers raise
   *   `sessionTimeout` to two ticks, if it is shorter
   */
  client(options: Omit<ZkClientOptions, 'connectString' | 'transport'> = {}): Promise<ZkClient> {
    return this.run(async () => {
      const { connectString, connect } = this.#ensemble;
      const client = new ZkClient({ ...options, connectString }, connect);
      await client.connect();
      return client;
    });
  }

  /** Connects every ZkModule connection of a Nest testing module to the simulated servers. */
  override<Builder extends Overridable<Builder>>(builder: Builder): Builder {
    return builder.overrideProvider(ZK_ENSEMBLE).useValue(this.#ensemble);
  }

  /** The addresses of the servers, and how a connection of this process reaches them. */
  get #ensemble(): Ensemble {
    const { network } = this.world;
    return {
      connectString: network.connectString,
      connect: connectWire(({ ip, port }) => network.connect(this, `${ip}:${port}`)),
    };
  }

  /**
   * Stops the process, as SIGSTOP or a long garbage collection does. Its clocks continue. Replies and timers that
   * come due wait for {@link resume}.
   */
  pause(): void {
    if (this.#paused || this.#crashed) return;
    this.#paused = true;
    this.world.note(this.name, 'paused');
  }

  /**
   * Continues after {@link pause}. Timers and replies that came due during the pause happen now. The seed decides
   * whether timers or replies come first.
   */
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
   * Keeps the event loop of the process busy for `ms` milliseconds, as a long computation does. Call it in `run()`:
   * the code after the call runs `ms` later. Called from elsewhere, it returns at once and delays the next events
   * of the process.
   */
  block(ms: number): void {
    milliseconds('the time of block', ms, 0);
    if (this.#crashed) return;
    this.world.note(this.name, `blocked for ${ms} ms`);
    this.world.scheduler.block(this, ms);
  }

  /**
   * Ends the process at once. None of its code runs again, not even a `finally`. Its connections break. With
   * `silently` the servers do not notice that, as when a machine loses power. To replace the process, start another
   * one of the same name.
   */
  crash({ silently = false } = {}): void {
    if (this.#crashed) return;
    this.#crashed = true;
    this.world.note(this.name, 'crashed');
    this.#held = [];
    this.#timers.clear();
    this.world.network.crashed(this, silently);
    for (const abandon of this.#pending) abandon();
    this.#pending.clear();
  }

  /** Moves the wall clock of the process forward by `ms` milliseconds, or back if `ms` is negative. */
  stepClock(ms: number): void {
    milliseconds('the step of a clock', ms, -LONGEST_STEP, LONGEST_STEP);
    if (this.#crashed) return;
    this.world.note(this.name, `wall clock stepped by ${ms} ms`);
    this.#wallStep += ms;
  }

  /**
   * The value of `performance.now()` in the process.
   *
   * @internal
   */
  monotonicTime(): number {
    return this.world.scheduler.readClock() * this.clockRate;
  }

  /**
   * The value of `Date.now()` in the process.
   *
   * @internal
   */
  wallTime(): number {
    return WALL_START + Math.floor(this.monotonicTime() + this.#wallStep);
  }

  /**
   * Keeps an event that came due during a pause.
   *
   * @internal
   */
  hold(event: Event): void {
    this.#held.push(event);
  }

  /** @internal */
  timerStarted(timer: object): void {
    this.#timers.add(timer);
  }

  /** @internal */
  timerEnded(timer: object): void {
    this.#timers.delete(timer);
  }

  /**
   * Schedules the callback of a timer or immediate.
   *
   * @param delay milliseconds of the clock of the process; undefined for the next turn of its event loop
   * @internal
   */
  scheduleTimer(delay: number | undefined, fire: () => void): Event {
    const { scheduler, random } = this.world;
    const { time } = scheduler;
    if (delay === undefined) {
      // All immediates that wait run in one turn. An immediate that they start runs in the next turn.
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
