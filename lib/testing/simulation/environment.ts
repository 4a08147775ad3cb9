import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { performance } from 'node:perf_hooks';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { separateProcesses } from '../../client/process-state.js';
import { type SimulatedProcess, WALL_START } from './process.js';
import { EventRandom, type Random } from './random.js';
import { toDelay, virtualTimer, VirtualTimer } from './virtual-timer.js';

/*
 * Replaces the timers, clocks and sources of random numbers of this Node process while a simulation runs.
 * Modules that were loaded before see the replacements too. The exception is a CommonJS module that keeps a
 * function of `node:timers` or `node:crypto` in a variable of its own.
 */

type Callback = (...args: unknown[]) => unknown;
type Target = Record<PropertyKey, unknown>;

/**
 * @param current returns the process whose code is running
 * @param event returns the number of the event that is happening
 * @returns a function that restores everything
 */
export function install(
  current: () => SimulatedProcess,
  random: Random,
  event: () => number,
): () => void {
  const undo: (() => void)[] = [];
  const replace = (target: object, replacements: Target) => {
    for (const name of Reflect.ownKeys(replacements)) {
      const before = Reflect.getOwnPropertyDescriptor(target, name);
      Object.defineProperty(target, name, {
        value: replacements[name],
        configurable: true,
        writable: true,
        enumerable: before?.enumerable ?? true,
      });
      undo.push(() => {
        if (before) Object.defineProperty(target, name, before);
        else Reflect.deleteProperty(target, name);
      });
    }
  };

  const timerFunctions = virtualTimers(current);
  replace(globalThis, timerFunctions);
  replace(timers, timerFunctions);
  replace(timersPromises, promisedTimers(current));
  replace(AbortSignal, { timeout: abortAfter(current), any: abortWithAny });
  replace(performance, clocks(current));
  replace(globalThis, { Date: virtualDate(current) });
  replace(process, {
    hrtime: highResolutionTime(current),
    uptime: () => current().monotonicTime() / 1000,
  });
  // One source for each function: libraries keep pools of random numbers beyond the end of a simulation.
  const source = () => new EventRandom(random.next() * 2 ** 32, event);
  const [numbers, bytes, ids, integers] = [source(), source(), source(), source()];
  replace(Math, { random: () => numbers.next() });
  const randoms = randomFunctions({ bytes, ids, integers }, current);
  replace(crypto, randoms);
  replace(globalThis.crypto, {
    randomUUID: randoms.randomUUID,
    getRandomValues: (array: NodeJS.ArrayBufferView) => fill(bytes, array),
  });
  syncBuiltinESMExports();
  separateProcesses(current);

  return () => {
    separateProcesses(undefined);
    for (const restore of undo.toReversed()) restore();
    syncBuiltinESMExports();
  };
}

function virtualTimers(current: () => SimulatedProcess): Target {
  const { clearTimeout, clearInterval, clearImmediate } = globalThis;
  const start = (
    callback: unknown,
    args: unknown[],
    delay: number | undefined,
    repeats: boolean,
  ) => {
    if (typeof callback !== 'function') {
      const message = `The "callback" argument must be of type function. Received ${String(callback)}`;
      throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
    }
    return new VirtualTimer(current(), callback as Callback, args, delay, repeats);
  };
  const stop = (real: (handle: never) => void) => (handle: unknown) => {
    const timer = virtualTimer(handle, current());
    if (timer) timer.close();
    else if (typeof handle !== 'number') real(handle as never);
  };
  const setTimeout = (callback: unknown, delay?: unknown, ...args: unknown[]) =>
    start(callback, args, toDelay(delay), false);
  const setImmediate = (callback: unknown, ...args: unknown[]) =>
    start(callback, args, undefined, false);
  const promisify = Symbol.for('nodejs.util.promisify.custom');
  const promised = promisedTimers(current);
  return {
    setTimeout: Object.assign(setTimeout, { [promisify]: promised.setTimeout }),
    setInterval: (callback: unknown, delay?: unknown, ...args: unknown[]) =>
      start(callback, args, toDelay(delay), true),
    setImmediate: Object.assign(setImmediate, { [promisify]: promised.setImmediate }),
    clearTimeout: stop(clearTimeout),
    clearInterval: stop(clearInterval),
    clearImmediate: stop(clearImmediate),
  };
}

interface WaitOptions {
  signal?: AbortSignal;
  ref?: boolean;
}

function promisedTimers(current: () => SimulatedProcess) {
  const wait = <T>(delay: number | undefined, value: T, { signal }: WaitOptions = {}) =>
    new Promise<T>((resolve, reject) => {
      if (signal?.aborted) return reject(abortError(signal));
      const onAbort = () => {
        timer.close();
        reject(abortError(signal!));
      };
      const done = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve(value);
      };
      const timer = new VirtualTimer(current(), done, [], delay, false);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  const sleep = <T>(delay?: unknown, value?: T, options?: WaitOptions) =>
    wait(toDelay(delay), value, options);
  const nextTurn = <T>(value?: T, options?: WaitOptions) => wait(undefined, value, options);
  async function* repeat<T>(delay?: unknown, value?: T, options?: WaitOptions) {
    for (;;) yield await sleep(delay, value, options);
  }
  return {
    setTimeout: sleep,
    setImmediate: nextTurn,
    setInterval: repeat,
    scheduler: {
      wait: (delay: number, options?: WaitOptions) => sleep(delay, undefined, options),
      yield: () => nextTurn(),
    },
  };
}

function abortError({ reason }: AbortSignal): Error {
  const error = new Error('The operation was aborted', { cause: reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}

function abortAfter(current: () => SimulatedProcess) {
  return (delay: number) => {
    const controller = new AbortController();
    const abort = () => {
      const message = 'The operation was aborted due to timeout';
      controller.abort(new DOMException(message, 'TimeoutError'));
    };
    const process = current();
    const timer = new VirtualTimer(process, abort, [], toDelay(delay), false);
    // Code cannot clear this timer, so it does not count as one that the code has left.
    process.timerEnded(timer);
    return controller.signal;
  };
}

/** Node's own depends on garbage collection, and keeps the signals of crashed processes forever. */
function abortWithAny(signals: Iterable<AbortSignal>): AbortSignal {
  const sources = [...signals];
  const controller = new AbortController();
  const abort = (event: { target: EventTarget | null }) => {
    for (const source of sources) source.removeEventListener('abort', abort);
    controller.abort((event.target as AbortSignal).reason);
  };
  for (const source of sources) {
    if (source.aborted) {
      abort({ target: source });
      break;
    }
    source.addEventListener('abort', abort);
  }
  return controller.signal;
}

function clocks(current: () => SimulatedProcess): Target {
  return {
    now: () => current().monotonicTime(),
    // All processes share one origin, as processes of one machine do, so that their times can be compared.
    timeOrigin: WALL_START,
  };
}

function virtualDate(current: () => SimulatedProcess): DateConstructor {
  const now = () => current().wallTime();
  return new Proxy(Date, {
    apply: (target) => new target(now()).toString(),
    construct: (target, args: [], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
  });
}

function highResolutionTime(current: () => SimulatedProcess) {
  const nanoseconds = () => BigInt(Math.round(current().monotonicTime() * 1e6));
  const hrtime = (before?: [number, number]): [number, number] => {
    const time = nanoseconds() - (before ? BigInt(before[0]) * 10n ** 9n + BigInt(before[1]) : 0n);
    return [Number(time / 10n ** 9n), Number(time % 10n ** 9n)];
  };
  return Object.assign(hrtime, { bigint: nanoseconds });
}

function randomFunctions(
  { bytes, ids, integers }: Record<'bytes' | 'ids' | 'integers', Random>,
  current: () => SimulatedProcess,
) {
  const soon = (callback: Callback, ...args: unknown[]) =>
    void new VirtualTimer(current(), callback, args, undefined, false);
  return {
    randomUUID: () => uuid(ids),
    randomBytes: (size: number, callback?: Callback) => {
      const filled = fill(bytes, Buffer.alloc(size));
      return callback ? soon(callback, null, filled) : filled;
    },
    randomFill: (array: NodeJS.ArrayBufferView, ...rest: (number | Callback)[]) => {
      const [offset, size] = rest.filter((each) => typeof each === 'number');
      soon(rest.at(-1) as Callback, null, fill(bytes, array, offset, size));
    },
    randomFillSync: (array: NodeJS.ArrayBufferView, offset?: number, size?: number) =>
      fill(bytes, array, offset, size),
    randomInt: (low: number, high?: number | Callback, callback?: Callback) => {
      const [from, to] = typeof high === 'number' ? [low, high] : [0, low];
      const done = typeof high === 'function' ? high : callback;
      const number = integers.whole(from, to - 1);
      return done ? soon(done, null, number) : number;
    },
  };
}

/**
 * Fills an array with random bytes.
 *
 * @param offset the first element to fill; offset and size count elements, as in Node's `randomFillSync`
 */
function fill<T extends NodeJS.ArrayBufferView>(
  random: Random,
  array: T,
  offset = 0,
  size?: number,
): T {
  const width = 'BYTES_PER_ELEMENT' in array ? Number(array.BYTES_PER_ELEMENT) : 1;
  const length = size === undefined ? array.byteLength - offset * width : size * width;
  const bytes = new Uint8Array(array.buffer, array.byteOffset + offset * width, length);
  for (let index = 0; index < bytes.length; index++) bytes[index] = random.whole(0, 255);
  return array;
}

function uuid(random: Random): string {
  const bytes = fill(random, Buffer.alloc(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return [...groups, hex.slice(20)].join('-');
}
