import crypto, { randomUUID } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { performance } from 'node:perf_hooks';
import timers, { setTimeout as startTimer } from 'node:timers';
import timersPromises, { setTimeout as sleep } from 'node:timers/promises';
import { separateProcesses } from '../../client/index.js';
import type { SimulatedProcess } from './process.js';
import { findTimer, toDelay, VirtualTimer, WALL_CLOCK_START } from './process-time.js';
import type { Random } from './random.js';
import { randomFunctions } from './random-functions.js';

/*
 * Replaces the timers, clocks and sources of random numbers of this Node process while a simulation runs.
 * Modules that were loaded earlier use the replacements too, except CommonJS modules that have stored a function of
 * `node:timers` or `node:crypto` in a variable.
 */

type Callback = (...args: unknown[]) => unknown;
type Replacements = Record<PropertyKey, unknown>;

/** The simulation, as the replaced functions see it. */
interface RunningCode {
  /** Returns the process whose code is running. */
  current(): SimulatedProcess;
  /** Returns whether the running code is not part of any simulation, such as the code of a test runner. */
  isOutside(): boolean;
  /** Returns the number of the event that is running. */
  eventNumber(): number;
}

/**
 * Replaces the timers, clocks and random numbers. Code outside of the simulation still gets the original functions.
 *
 * @returns a function that restores the original functions
 */
export function replaceGlobals(
  { current, isOutside, eventNumber }: RunningCode,
  random: Random,
): () => void {
  const undo: (() => void)[] = [];
  const define = (target: object, name: PropertyKey, value: unknown) => {
    const before = Reflect.getOwnPropertyDescriptor(target, name);
    const enumerable = before?.enumerable ?? true;
    Object.defineProperty(target, name, { value, configurable: true, writable: true, enumerable });
    undo.push(() => {
      if (before) Object.defineProperty(target, name, before);
      else Reflect.deleteProperty(target, name);
    });
  };
  const replace = (target: object, replacements: Replacements) => {
    for (const name of Reflect.ownKeys(replacements)) {
      define(target, name, insideOnly(replacements[name], Reflect.get(target, name), isOutside));
    }
  };

  const timerFunctions = virtualTimerFunctions(current);
  replace(globalThis, timerFunctions);
  replace(timers, timerFunctions);
  replace(timersPromises, virtualTimerPromises(current));
  replace(AbortSignal, { timeout: virtualAbortTimeout(current), any: abortSignalAny });
  replace(performance, virtualPerformance(current));
  const date = virtualDate(current, isOutside);
  define(globalThis, 'Date', date);
  define(Date.prototype, 'constructor', date);
  replace(process, {
    hrtime: virtualHrtime(current),
    uptime: () => current().clocks.monotonicTime() / 1000,
  });
  replace(os, { uptime: () => current().clocks.bootTime() / 1000 });
  const { next, nodeCrypto, webCrypto } = randomFunctions(random, eventNumber, current);
  replace(Math, { random: next });
  replace(crypto, nodeCrypto);
  replace(globalThis.crypto, webCrypto);
  syncBuiltinESMExports();
  separateProcesses(() => (isOutside() ? undefined : current()));

  return () => {
    separateProcesses(undefined);
    for (const restore of undo.toReversed()) restore();
    syncBuiltinESMExports();
  };
}

/**
 * Checks that functions which this module imports by name from Node's modules are the replaced ones. Test runners that
 * load modules into a context of `node:vm` give them copies of Node's modules, which a simulation cannot replace. The
 * library and the code under test would then use real timers.
 *
 * @throws Error that names the test runners to use
 */
export function checkImportsReplaced(): void {
  if (
    sleep === timersPromises.setTimeout &&
    startTimer === timers.setTimeout &&
    randomUUID === crypto.randomUUID
  ) {
    return;
  }
  throw new Error(
    "simulate: the test runner gives modules copies of Node's builtin modules, so their timers and random numbers cannot be replaced; with Vitest, set the option `pool` to 'forks' or 'threads' instead of 'vmForks' or 'vmThreads'; with Jest, run simulations by Vitest or node:test instead",
  );
}

/**
 * Returns a value with the functions of `replacement`. Code outside of the simulation calls those of `original` instead.
 */
function insideOnly(replacement: unknown, original: unknown, isOutside: () => boolean): unknown {
  const isFunction = typeof replacement === 'function' && typeof original === 'function';
  if (!isFunction && (typeof replacement !== 'object' || replacement === null)) return replacement;
  const result = isFunction
    ? function (this: unknown, ...args: unknown[]): unknown {
        return Reflect.apply(isOutside() ? original : replacement, this, args);
      }
    : {};
  for (const name of Reflect.ownKeys(replacement as object)) {
    if (name === 'length' || name === 'name' || name === 'prototype') continue;
    const [inner, outer] = [replacement, original].map((each) => Reflect.get(each as object, name));
    Reflect.set(result, name, insideOnly(inner, outer, isOutside));
  }
  return result;
}

function virtualTimerFunctions(current: () => SimulatedProcess): Replacements {
  const { clearTimeout, clearInterval, clearImmediate } = globalThis;
  const startTimer = (
    callback: unknown,
    args: unknown[],
    delay: number | undefined,
    repeats: boolean,
  ) => {
    if (typeof callback !== 'function') {
      const message = `The "callback" argument must be of type function. Received ${String(callback)}`;
      throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
    }
    return new VirtualTimer(current().timerOwner, callback as Callback, args, delay, repeats);
  };
  const clearTimer = (realClear: (handle: never) => void) => (handle: unknown) => {
    const timer = findTimer(handle, current().timerOwner);
    if (timer) timer.close();
    else if (typeof handle !== 'number') realClear(handle as never);
  };
  const setTimeout = (callback: unknown, delay?: unknown, ...args: unknown[]) =>
    startTimer(callback, args, toDelay(delay), false);
  const setImmediate = (callback: unknown, ...args: unknown[]) =>
    startTimer(callback, args, undefined, false);
  const promisify = Symbol.for('nodejs.util.promisify.custom');
  const promises = virtualTimerPromises(current);
  return {
    setTimeout: Object.assign(setTimeout, { [promisify]: promises.setTimeout }),
    setInterval: (callback: unknown, delay?: unknown, ...args: unknown[]) =>
      startTimer(callback, args, toDelay(delay), true),
    setImmediate: Object.assign(setImmediate, { [promisify]: promises.setImmediate }),
    clearTimeout: clearTimer(clearTimeout),
    clearInterval: clearTimer(clearInterval),
    clearImmediate: clearTimer(clearImmediate),
  };
}

interface WaitOptions {
  signal?: AbortSignal;
  ref?: boolean;
}

function virtualTimerPromises(current: () => SimulatedProcess) {
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
      const timer = new VirtualTimer(current().timerOwner, done, [], delay, false);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  const setTimeout = <T>(delay?: unknown, value?: T, options?: WaitOptions) =>
    wait(toDelay(delay), value, options);
  const nextTurn = <T>(value?: T, options?: WaitOptions) => wait(undefined, value, options);
  // As in Node, the interval continues while the consumer is busy, and the consumer gets the missed values at once.
  async function* repeat<T>(delay?: unknown, value?: T, { signal }: WaitOptions = {}) {
    if (signal?.aborted) throw abortError(signal);
    let due = 0;
    let wake = () => {};
    const fired = () => {
      due++;
      wake();
    };
    const timer = new VirtualTimer(current().timerOwner, fired, [], toDelay(delay), true);
    const onAbort = () => {
      timer.close();
      wake();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      while (!signal?.aborted) {
        if (due === 0) await new Promise<void>((resolve) => (wake = resolve));
        for (; due > 0; due--) yield value;
      }
      throw abortError(signal);
    } finally {
      timer.close();
      signal?.removeEventListener('abort', onAbort);
    }
  }
  return {
    setTimeout,
    setImmediate: nextTurn,
    setInterval: repeat,
    scheduler: {
      wait: (delay: number, options?: WaitOptions) => setTimeout(delay, undefined, options),
      yield: () => nextTurn(),
    },
  };
}

function abortError({ reason }: AbortSignal): Error {
  const error = new Error('The operation was aborted', { cause: reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}

function virtualAbortTimeout(current: () => SimulatedProcess) {
  const realTimeout = AbortSignal.timeout.bind(AbortSignal);
  return (delay: number) => {
    // Node's function throws the error.
    if (!(Number.isInteger(delay) && delay >= 0 && delay < 2 ** 32)) return realTimeout(delay);
    const controller = new AbortController();
    const abort = () => {
      const message = 'The operation was aborted due to timeout';
      controller.abort(new DOMException(message, 'TimeoutError'));
    };
    const { timerOwner } = current();
    const timer = new VirtualTimer(timerOwner, abort, [], toDelay(delay), false);
    // Code cannot clear this timer, so `SimulatedProcess.timers` must not list it.
    timerOwner.pending.delete(timer);
    return controller.signal;
  };
}

/**
 * Replaces `AbortSignal.any`. Node's implementation depends on garbage collection, and never frees the signals of
 * crashed processes.
 */
function abortSignalAny(signals: Iterable<AbortSignal>): AbortSignal {
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

function virtualPerformance(current: () => SimulatedProcess): Replacements {
  return {
    now: () => current().clocks.monotonicTime(),
    // All processes have the same origin, so that the times of different processes can be compared.
    timeOrigin: WALL_CLOCK_START,
  };
}

function virtualDate(current: () => SimulatedProcess, isOutside: () => boolean): DateConstructor {
  const RealDate = Date;
  const now = () => (isOutside() ? RealDate.now() : current().clocks.wallTime());
  return new Proxy(RealDate, {
    apply: (target) => new target(now()).toString(),
    construct: (target, args: [], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
  });
}

function virtualHrtime(current: () => SimulatedProcess) {
  const nanoseconds = () => BigInt(Math.round(current().clocks.monotonicTime() * 1e6));
  const hrtime = (before?: [number, number]): [number, number] => {
    const time = nanoseconds() - (before ? BigInt(before[0]) * 10n ** 9n + BigInt(before[1]) : 0n);
    return [Number(time / 10n ** 9n), Number(time % 10n ** 9n)];
  };
  return Object.assign(hrtime, { bigint: nanoseconds });
}
