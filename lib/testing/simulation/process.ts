import type { AsyncLocalStorage } from 'node:async_hooks';
import {
  type ByteStream,
  connectWire,
  ZkClient,
  type ZkClientOptions,
} from '../../client/index.js';
import { type Ensemble, ZK_ENSEMBLE } from '../../zk.ensemble.js';
import type { Overridable } from '../test-zookeeper.js';
import { Link } from './link.js';
import { checkNumber, checkType } from './options.js';
import { ProcessClocks, ProcessTimers } from './process-time.js';
import type { Random } from './random.js';
import type { Event, Scheduler } from './scheduler.js';

/** The greatest step of a wall clock in milliseconds, about 100 years. */
const MAX_CLOCK_STEP = 3.2e12;

/**
 * The error with which `run()` rejects if the process crashes before the function has ended.
 * Cause: the scenario called `crash()` of the process.
 * Remedy: none. A scenario that crashes a process handles the rejection of its `run()`.
 *
 * @publicApi
 */
export class ProcessCrashedError extends Error {
  override readonly name = 'ProcessCrashedError';
}

/** The network, as far as a process uses it. */
interface ProcessNetwork {
  /** The addresses of all servers, separated by commas. */
  readonly connectString: string;
  /** Opens a connection of a process to a server. */
  connect(process: SimulatedProcess, address: string): ByteStream;
  /** Ends the connections of a process that has crashed. */
  processCrashed(process: SimulatedProcess, silently: boolean): void;
}

/**
 * The parts of the simulation that a process uses.
 *
 * @internal
 */
export interface ProcessContext {
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly contexts: AsyncLocalStorage<SimulatedProcess>;
  readonly network: ProcessNetwork;
  /** Records a fault in the trace. */
  note(process: string, event: string): void;
}

/**
 * A process of a simulation. It has an event loop and clocks of its own, and it can be paused or crash while other
 * processes continue. All processes share the modules of the Node process. The library has separate state for each
 * process; the code under test must have separate state too.
 *
 * After a crash, the methods that inject faults do nothing.
 *
 * @publicApi
 */
export class SimulatedProcess {
  /** The network between the process and the servers. */
  readonly link: Link;
  /** @internal */
  readonly clocks: ProcessClocks;
  /** @internal */
  readonly timerOwner: ProcessTimers;
  /** @internal */
  busyUntil = 0;
  #paused = false;
  #crashed = false;
  #heldEvents: Event[] = [];
  /** Rejects the calls of `run()` that have not ended. */
  readonly #pendingRuns = new Set<() => void>();

  /** @internal */
  constructor(
    /** @internal */
    readonly id: number,
    /** The name of the process, or the address of a server. */
    readonly name: string,
    private readonly context: ProcessContext,
    clockRate = 1,
  ) {
    this.clocks = new ProcessClocks(context.scheduler, clockRate);
    this.timerOwner = new ProcessTimers(this, context.scheduler, context.random, this.clocks);
    this.link = new Link(this, context.random.fork());
  }

  /** The rate of the clocks of the process. A clock of rate 1.01 gains one per cent. */
  get clockRate(): number {
    return this.clocks.rate;
  }

  /** The timers that have not fired, immediates included. */
  get timers(): ReadonlySet<object> {
    return this.timerOwner.pending;
  }

  /** Whether the process is paused. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Whether the process has crashed. */
  get crashed(): boolean {
    return this.#crashed;
  }

  /** Whether its simulation has ended. @internal */
  get ended(): boolean {
    return this.context.scheduler.ended;
  }

  /**
   * Runs `fn` in this process and resolves to its result.
   *
   * @throws ProcessCrashedError if the process crashes before `fn` has ended; the error that `fn` throws; TypeError if
   *   `fn` is not a function
   */
  run<T>(fn: () => T | Promise<T>): Promise<T> {
    checkType('the argument of run()', fn, 'function');
    const { scheduler, contexts } = this.context;
    const caller = contexts.getStore() ?? scheduler.running!;
    const result = new Promise<T>((resolve, reject) => {
      if (this.#crashed) return reject(this.#crashedError());
      const rejectCrashed = () => {
        reject(this.#crashedError());
        // A crash must not count as an unhandled rejection if the scenario does not await the result.
        result.catch(() => {});
      };
      this.#pendingRuns.add(rejectCrashed);
      const settle = <A>(done: (value: A) => void) => {
        return (value: A) => {
          if (this.#pendingRuns.delete(rejectCrashed)) {
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

  /** The addresses of the servers, and the function that connects this process to a server. @internal */
  get ensemble(): Ensemble {
    const { network } = this.context;
    return {
      connectString: network.connectString,
      connect: connectWire(({ ip, port }) => network.connect(this, `${ip}:${port}`)),
    };
  }

  /**
   * Pauses the process, as SIGSTOP or a long garbage collection does. Its clocks continue. Replies and timers that come
   * due during the pause are handled after {@link resume}. If the process calls this method itself, the pause begins at
   * the end of the present event.
   *
   * With `asleep` the whole machine sleeps: `performance.now()` and timers stand still meanwhile, but `Date.now()` and
   * `os.uptime()` continue.
   */
  pause({ asleep = false } = {}): void {
    if (this.#paused || this.#crashed) return;
    this.#paused = true;
    if (asleep) this.clocks.fallAsleep();
    this.context.note(this.name, asleep ? 'asleep' : 'paused');
  }

  /**
   * Continues after {@link pause}. Timers and replies that came due during the pause are handled now.
   *
   * @param first whether timers or messages are handled first. Default: the seed decides
   */
  resume(first?: 'timer' | 'message'): void {
    if (!this.#paused || this.#crashed) return;
    this.#paused = false;
    this.context.note(this.name, 'resumed');
    const { scheduler, random } = this.context;
    this.clocks.wakeUp();
    const held = this.#heldEvents;
    this.#heldEvents = [];
    const firstKind = first ?? random.pick(['timer', 'message', undefined]);
    const before = held.filter(({ kind }) => kind === firstKind);
    const rest = held.filter(({ kind }) => kind !== firstKind);
    for (const event of [...before, ...rest]) scheduler.reschedule(event);
  }

  /**
   * Keeps the event loop of the process busy for `ms` milliseconds, as a long computation does. Call it in `run()`:
   * the code after the call runs `ms` later. A call from other code returns at once and delays the next events of the
   * process.
   */
  block(ms: number): void {
    checkNumber('the time of block()', ms, 0);
    if (this.#crashed) return;
    this.context.note(this.name, `blocked for ${ms} ms`);
    this.context.scheduler.block(this, ms);
  }

  /**
   * Ends the process. None of its code runs again, not even a `finally`, with one exception: if the process calls this
   * method itself, its code runs until the end of the present event, that is until it waits for a timer or a reply. Its connections break. With `silently`
   * the servers are not notified of that, as when a machine loses power. To replace the process, start another process
   * with the same name.
   */
  crash({ silently = false } = {}): void {
    if (this.#crashed) return;
    this.#crashed = true;
    this.context.note(this.name, 'crashed');
    this.#heldEvents = [];
    this.timerOwner.pending.clear();
    this.context.network.processCrashed(this, silently);
    for (const rejectCrashed of this.#pendingRuns) rejectCrashed();
    this.#pendingRuns.clear();
  }

  /** Moves the wall clock of the process forward by `ms` milliseconds, or back if `ms` is negative. */
  stepClock(ms: number): void {
    checkNumber('the step of stepClock()', ms, -MAX_CLOCK_STEP, MAX_CLOCK_STEP);
    if (this.#crashed) return;
    this.context.note(this.name, `wall clock stepped by ${ms} ms`);
    this.clocks.stepWallClock(ms);
  }

  /** Holds an event that came due during a pause until the process resumes. @internal */
  hold(event: Event): void {
    this.#heldEvents.push(event);
  }

  /**
   * Throws if this process has crashed and the running code belongs to another process. Code of this process itself may
   * still run until the end of the event in which the process crashed.
   *
   * @throws ProcessCrashedError
   * @internal
   */
  checkNotCrashed(): void {
    const { contexts, scheduler } = this.context;
    const current = contexts.getStore() ?? scheduler.running;
    if (!this.#crashed || current === this) return;
    throw new ProcessCrashedError(
      `a client of the process ${this.name} was used after the process had crashed; use it in run() of this process only`,
    );
  }

  #crashedError(): ProcessCrashedError {
    return new ProcessCrashedError(`the process ${this.name} crashed`);
  }
}
