import { AsyncLocalStorage } from 'node:async_hooks';
import { inspect } from 'node:util';
import { separateChannels } from './channels.js';
import { checkImportsReplaced, replaceGlobals } from './environment.js';
import { checkOptions, checkType, type SimulationOptions } from './options.js';
import type { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import { RealIoDetector } from './real-io.js';
import { Scheduler } from './scheduler.js';
import { type TraceEntry, World } from './world.js';

/** The greatest number of trace entries in the message of an error. */
const MAX_ENTRIES_IN_MESSAGE = 8;

/**
 * The result of a simulation.
 *
 * @publicApi
 */
export interface SimulationResult<T> {
  readonly seed: number;
  /**
   * Sixteen hexadecimal digits. Two runs have the same digest if they had the same events at the same times in the same
   * processes, the same requests and replies except for the data of znodes, the same trace, and the same outcome: the
   * message of the error, or the return value as far as it is plain data.
   */
  readonly digest: string;
  /** Virtual milliseconds that passed. */
  readonly duration: number;
  /** The number of events, such as messages, timers and turns of event loops. */
  readonly events: number;
  readonly trace: readonly TraceEntry[];
  /** The return value of the scenario. */
  readonly value: T;
}

/**
 * The failure of a simulation, with the seed that repeats it. The message ends with the last entries of the trace.
 *
 * `cause` is the error of the scenario or of the code under test. If the code under test started real I/O, the stack
 * of `cause` shows the code that started it, and `cause.cause` is the other error of the simulation, if there was one.
 * Cause: the scenario failed an assertion, the code under test threw, started real I/O, or did not end within `limit`.
 * Remedy: run the simulation again with the `seed` of the error, and read `cause` and `trace`.
 *
 * @publicApi
 */
export class SimulationError extends Error {
  override readonly name = 'SimulationError';

  constructor(
    message: string,
    readonly seed: number,
    /** Virtual milliseconds from the start of the simulation to the failure, or to the start of the real I/O. */
    readonly at: number,
    readonly digest: string,
    readonly trace: readonly TraceEntry[],
    options?: { cause?: unknown },
  ) {
    const summary = `simulation with seed ${seed} failed after ${at.toFixed(3)} virtual ms: ${message}`;
    super([summary, ...lastEntries(trace, at)].join('\n'), options);
  }
}

/** Returns the lines of a message that list the last entries of a trace until a time. */
function lastEntries(trace: readonly TraceEntry[], until: number): string[] {
  const last = trace.filter(({ at }) => at <= until).slice(-MAX_ENTRIES_IN_MESSAGE);
  if (last.length === 0) return [];
  const times = last.map(({ at }) => at.toFixed(3));
  const width = times.at(-1)!.length;
  const lines = last.map(({ process, event }, index) => {
    return `  ${times[index]!.padStart(width)} ms  ${process}: ${event.replaceAll('\n', ' ')}`;
  });
  return ['The last entries of the trace:', ...lines];
}

/** Modules that Nest and this library import on first use. */
const LAZY_MODULES = [
  '@nestjs/platform-express',
  '@nestjs/microservices',
  '@nestjs/microservices/microservices-module.js',
  '@nestjs/websockets',
  '@nestjs/websockets/socket-module.js',
];

let loaded: Promise<unknown> | undefined;

/** Imports the installed modules of the list before a simulation, in which code cannot wait for files. */
function loadLazyModules(): Promise<unknown> {
  return (loaded ??= Promise.allSettled(LAZY_MODULES.map((name) => import(name))));
}

let running = false;

/** The process that each piece of code belongs to. Code of an ended simulation keeps its process. */
const contexts = new AsyncLocalStorage<SimulatedProcess>();

/**
 * Runs a scenario in virtual time: several processes, a network with faults and an ensemble of servers, in one
 * Node process and one event at a time. The seed decides every latency, every random number and the order of
 * events that are due at the same time, so the same seed repeats the same run.
 *
 * A simulation replaces the timers, clocks and random numbers of this Node process while it runs. Therefore only one
 * simulation can run at a time. Load all modules before it: code under test must not wait for files, sockets or
 * threads.
 *
 * ```ts
 * it('sells one piece', async () => {
 *   await simulate({ seed: 1 }, async (world) => {
 *     const shop = world.process('shop');
 *     const client = await shop.client();
 *     await shop.run(() => new Mutex(client, '/locks/stock').withLock(() => sell()));
 *   });
 * });
 * ```
 *
 * @throws SimulationError with the seed if the scenario throws, a process has an unhandled rejection or an uncaught
 *   error, the code under test starts real I/O, or the scenario does not end within its limit; TypeError or
 *   RangeError if an option is wrong; Error if another simulation is running
 * @publicApi
 */
export async function simulate<T>(
  options: SimulationOptions,
  scenario: (world: World) => T | Promise<T>,
): Promise<SimulationResult<T>> {
  const checked = checkOptions(options, Math.floor(Math.random() * 2 ** 32));
  checkType('the scenario', scenario, 'function');
  if (running) {
    throw new Error(
      'simulate: another simulation is still running in this Node process, such as that of a test that timed out; run one simulation at a time',
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
  options: ReturnType<typeof checkOptions>,
  scenario: (world: World) => T | Promise<T>,
): Promise<SimulationResult<T>> {
  const random = new Random(seed);
  const scheduler = new Scheduler(random.fork());
  let world: World | undefined;
  const current = () =>
    contexts.getStore() ?? (scheduler.running as SimulatedProcess | undefined) ?? world!.scenario;
  // Between two batches of events, the real event loop runs the code of others, such as of the test runner.
  const isOutside = () => !scheduler.active && contexts.getStore() === undefined;

  let failure: { error: unknown } | undefined;
  let outcome: { value: T } | undefined;
  const fail = (error: unknown) => (failure ??= { error });
  const digestWith = (result: string) => {
    scheduler.digest.addText(result);
    return scheduler.digest.toString();
  };
  const wrap = (error: unknown, at: number) => {
    const message = messageOf(error);
    const digest = digestWith(`failed: ${message}`);
    return new SimulationError(message, seed, at, digest, world?.trace ?? [], { cause: error });
  };

  const code = { current, isOutside, eventNumber: () => scheduler.events };
  const restoreGlobals = replaceGlobals(code, random.fork());
  const restoreChannels = separateChannels(current, (process) => process === world?.scenario);
  const restoreErrorListeners = captureErrors(
    fail,
    () => contexts.getStore()?.ended ?? isOutside(),
  );
  const realIo = new RealIoDetector(scheduler);
  const restore = () => {
    realIo.disable();
    restoreErrorListeners();
    restoreChannels();
    restoreGlobals();
  };
  try {
    checkImportsReplaced();
  } catch (error) {
    restore();
    throw error;
  }
  try {
    const created = (world = new World(options, random, scheduler, contexts));
    created.at(0, () => {
      const started = (async () => scenario(created))();
      started.then((value) => (outcome = { value }), fail);
    });
    const isDone = () => failure !== undefined || outcome !== undefined;
    await scheduler.run({
      limit: options.limit,
      isDone,
      afterBatch: () => realIo.check(),
      stoppedNames: () => created.stoppedNames,
    });
    if (failure) throw (failure as { error: unknown }).error;
    realIo.check();
    return {
      seed,
      digest: digestWith(`returned: ${plainData(outcome!.value)}`),
      duration: scheduler.time,
      events: scheduler.events,
      trace: created.trace,
      value: outcome!.value,
    };
  } catch (error) {
    const { found } = realIo;
    if (!found) throw wrap(error, scheduler.time);
    // The results of real I/O differ between runs, so the other error may be a consequence of real I/O.
    if (error !== found.error) found.error.cause = error;
    throw wrap(found.error, found.at);
  } finally {
    restore();
    scheduler.end();
    // Otherwise Node 20 would copy the store into every promise that is created from now on.
    contexts.disable();
  }
}

/**
 * Passes unhandled errors to `fail` instead of the existing listeners, except those of other code. Returns a function
 * that restores the listeners.
 *
 * @param isOtherCode returns whether the code that failed is not part of this simulation, given the number of existing
 *   listeners
 */
function captureErrors(
  fail: (error: unknown) => void,
  isOtherCode: (otherListeners: number) => boolean,
): () => void {
  const restoreFunctions = (['unhandledRejection', 'uncaughtException'] as const).map((event) => {
    const others = process.listeners(event as 'uncaughtException');
    const listener = (error: Error, origin: NodeJS.UncaughtExceptionOrigin) => {
      if (!isOtherCode(others.length)) return fail(error);
      for (const other of others) other.call(process, error, origin);
    };
    process.removeAllListeners(event).on(event as 'uncaughtException', listener);
    return () => {
      process.off(event, listener);
      for (const other of others) process.on(event, other);
    };
  });
  return () => {
    for (const restore of restoreFunctions) restore();
  };
}

/** Returns the message of a thrown value, which need not be an `Error`. */
function messageOf(error: unknown): string {
  try {
    const message: unknown = error instanceof Error ? error.message : error;
    if (typeof message === 'string') return message;
    return inspect(message, { depth: 2, breakLength: Infinity });
  } catch {
    return `a thrown value that cannot be shown (${typeof error})`;
  }
}

/**
 * Returns the return value of a scenario as text for the digest. Only plain data is included, because other objects,
 * such as clients, may have properties that differ between runs.
 */
function plainData(value: unknown): string {
  try {
    return (
      JSON.stringify(value, (_, part: unknown) => {
        if (typeof part === 'bigint') return `${part}n`;
        return isPlain(part) ? part : undefined;
      }) ?? typeof value
    );
  } catch {
    return 'cyclic';
  }
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}
