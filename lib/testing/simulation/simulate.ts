import { AsyncLocalStorage } from 'node:async_hooks';
import { install } from './environment.js';
import { loadLazyModules } from './lazy-modules.js';
import { checkSimulation, type SimulationOptions } from './options.js';
import type { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import { RealIo } from './real-io.js';
import { Scheduler } from './scheduler.js';
import { type TraceEntry, World } from './world.js';

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
 * Why a simulation failed, with the seed that repeats it. `cause` is the error of the scenario or of the
 * code under test.
 *
 * @publicApi
 */
export class SimulationError extends Error {
  override readonly name = 'SimulationError';

  constructor(
    message: string,
    readonly seed: number,
    /** Virtual milliseconds since the simulation started. */
    readonly at: number,
    readonly digest: string,
    readonly trace: readonly TraceEntry[],
    options?: ErrorOptions,
  ) {
    super(
      `simulation with seed ${seed} failed after ${at.toFixed(3)} virtual ms: ${message}`,
      options,
    );
  }
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
  if (running) throw new Error('simulate: another simulation is running in this Node process');
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
  const wrap = (error: unknown) =>
    new SimulationError(
      error instanceof Error ? error.message : String(error),
      seed,
      scheduler.time,
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
    await scheduler.run(done, options.limit, () => io.check());
    if (failure) throw (failure as { error: unknown }).error;
    return {
      seed,
      digest: scheduler.digest.toString(),
      duration: scheduler.time,
      events: scheduler.events,
      trace: made.trace,
      value: outcome!.value,
    };
  } catch (error) {
    throw wrap(error);
  } finally {
    io.stop();
    release();
    restore();
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
