import { AsyncLocalStorage } from 'node:async_hooks';
import { install } from './environment.js';
import { loadLazyModules } from './lazy-modules.js';
import { checkSimulation, type SimulationOptions } from './options.js';
import type { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import { RealIo } from './real-io.js';
import { Scheduler } from './scheduler.js';
import { type TraceEntry, World } from './world.js';

/** How many entries of the trace the message of an error has, at most. */
const ENTRIES_IN_MESSAGE = 8;

/**
 * What a simulation returns.
 *
 * @publicApi
 */
export interface SimulationResult<T> {
  readonly seed: number;
  /** Sixteen hexadecimal digits: equal for two runs in which the same happened at the same times. */
  readonly digest: string;
  /** Virtual milliseconds that passed. */
  readonly duration: number;
  /** How many events happened: messages, timers, turns of event loops. */
  readonly events: number;
  readonly trace: readonly TraceEntry[];
  /** What the scenario returned. */
  readonly value: T;
}

/**
 * The failure of a simulation, with the seed that repeats it. The message ends with the last entries of the
 * trace. `cause` is the error of the scenario or of the code under test. For real I/O, its stack shows the
 * code that started it, and its own `cause` is the error that followed, if any.
 *
 * @publicApi
 */
export class SimulationError extends Error {
  override readonly name = 'SimulationError';

  constructor(
    message: string,
    readonly seed: number,
    /** Virtual milliseconds since the simulation started; for real I/O, the time at which it started. */
    readonly at: number,
    readonly digest: string,
    readonly trace: readonly TraceEntry[],
    options?: ErrorOptions,
  ) {
    const summary = `simulation with seed ${seed} failed after ${at.toFixed(3)} virtual ms: ${message}`;
    super([summary, ...lastEntries(trace, at)].join('\n'), options);
  }
}

/** Describes the last entries of a trace until a time: a heading and a line each, or nothing. */
function lastEntries(trace: readonly TraceEntry[], until: number): string[] {
  const last = trace.filter(({ at }) => at <= until).slice(-ENTRIES_IN_MESSAGE);
  if (last.length === 0) return [];
  const times = last.map(({ at }) => at.toFixed(3));
  const width = times.at(-1)!.length;
  const lines = last.map(({ process, event }, index) => {
    return `  ${times[index]!.padStart(width)} ms  ${process}: ${event.replaceAll('\n', ' ')}`;
  });
  return ['The last entries of the trace:', ...lines];
}

let running = false;

/**
 * Runs a scenario in virtual time: several processes, a network with faults and an ensemble of servers, in one
 * Node process and one event at a time. The seed decides every latency, every random number and the order of
 * events that are due at the same time, so the same seed repeats the same run.
 *
 * While it runs it replaces the timers, clocks and random numbers of this Node process, so one simulation
 * runs at a time. Load all modules before it: code under test must not wait for files, sockets or threads.
 *
 * ```ts
 * await simulate({ seed: 1 }, async (world) => {
 *   const shop = world.process('shop');
 *   const client = await shop.client();
 *   await shop.run(() => new Mutex(client, '/locks/stock').withLock(() => sell()));
 * });
 * ```
 *
 * @throws SimulationError with the seed: what the scenario threw, an unhandled rejection or an uncaught error of
 *   any process, real I/O, or a scenario that cannot end; TypeError or RangeError for a bad option
 * @publicApi
 */
export async function simulate<T>(
  options: SimulationOptions,
  scenario: (world: World) => T | Promise<T>,
): Promise<SimulationResult<T>> {
  const checked = checkSimulation(options, Math.floor(Math.random() * 2 ** 32));
  if (typeof scenario !== 'function') {
    throw new TypeError(`simulate: the scenario must be a function, got ${String(scenario)}`);
  }
  if (running) {
    throw new Error(
      'simulate: another simulation is running in this Node process; an earlier one may not have ended, such as in a test that timed out',
    );
  }
  running = true;
  try {
    await loadLazyModules();
    return await run(checked.seed, checked, scenario);
  } finally {
    running = false;
  }
}

async function run<T>(
  seed: number,
  options: ReturnType<typeof checkSimulation>,
  scenario: (world: World) => T | Promise<T>,
): Promise<SimulationResult<T>> {
  const random = new Random(seed);
  const scheduler = new Scheduler(random.fork());
  const contexts = new AsyncLocalStorage<SimulatedProcess>();
  let world: World | undefined;
  const current = () =>
    contexts.getStore() ?? (scheduler.running as SimulatedProcess | undefined) ?? world!.scenario;

  let failure: { error: unknown } | undefined;
  let outcome: { value: T } | undefined;
  const fail = (error: unknown) => (failure ??= { error });
  const wrap = (error: unknown, at: number) =>
    new SimulationError(
      error instanceof Error ? error.message : String(error),
      seed,
      at,
      scheduler.digest.toString(),
      world?.trace ?? [],
      { cause: error },
    );

  const restore = install(current, random.fork());
  const release = captureErrors(fail);
  const io = new RealIo(scheduler);
  try {
    const made = (world = new World(options, random, scheduler, contexts));
    made.at(0, () => {
      const started = (async () => scenario(made))();
      started.then((value) => (outcome = { value }), fail);
    });
    const done = () => failure !== undefined || outcome !== undefined;
    await scheduler.run({
      limit: options.limit,
      done,
      inspect: () => io.check(),
      paused: () => made.paused,
    });
    if (failure) throw (failure as { error: unknown }).error;
    io.check();
    return {
      seed,
      digest: scheduler.digest.toString(),
      duration: scheduler.time,
      events: scheduler.events,
      trace: made.trace,
      value: outcome!.value,
    };
  } catch (error) {
    const { found } = io;
    if (!found) throw wrap(error, scheduler.time);
    // What real I/O answers, and when, differs from run to run, so another error may be a consequence of it.
    if (error !== found.error) found.error.cause = error;
    throw wrap(found.error, found.at);
  } finally {
    io.stop();
    release();
    restore();
    scheduler.clear();
    // Otherwise Node 20 copies it into every promise for ever.
    contexts.disable();
  }
}

/** Passes errors that nobody handles to `fail` alone. Returns a function that ends this. */
function captureErrors(fail: (error: unknown) => void): () => void {
  const releases = (['unhandledRejection', 'uncaughtException'] as const).map((event) => {
    const others = process.listeners(event as 'uncaughtException');
    process.removeAllListeners(event).on(event, fail);
    return () => {
      process.off(event, fail);
      for (const other of others) process.on(event, other);
    };
  });
  return () => {
    for (const release of releases) release();
  };
}
