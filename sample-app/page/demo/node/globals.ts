// The global names of Node that the library uses. Import this module before any other.
import { bindContext } from './async-hooks.js';
import { Buffer } from './buffer.js';
import { EventEmitter } from './events.js';

const ticks: (() => void)[] = [];
const immediates: (() => void)[] = [];
const { port1, port2 } = new MessageChannel();

/** Runs one immediate, or the ticks that microtasks have added since the last one, as Node does. */
port1.addEventListener('message', () => {
  if (ticks.length === 0) immediates.shift()?.();
  runTicks();
});
port1.start();

function runTicks(): void {
  for (let tick; (tick = ticks.shift());) tick();
}

function nextTick(callback: () => void, ...args: never[]): void {
  const bound = bindContext(callback);
  ticks.push(() => Reflect.apply(bound, undefined, args));
  port2.postMessage(undefined);
}

function setImmediate(callback: () => void, ...args: never[]): void {
  const bound = bindContext(callback);
  immediates.push(() => Reflect.apply(bound, undefined, args));
  port2.postMessage(undefined);
}

const { queueMicrotask } = globalThis;

class Process extends EventEmitter {
  readonly env = {};
  readonly pid = 1;
  readonly platform = 'browser';
  readonly versions = { node: '24.0.0' };
  readonly nextTick = nextTick;
  readonly hrtime = () => {};
  readonly uptime = () => performance.now() / 1000;

  emitWarning(warning: unknown): void {
    console.warn(warning);
  }
}

const process = new Process();

Object.assign(globalThis, {
  Buffer,
  process,
  setImmediate,
  clearImmediate: () => {},
  queueMicrotask: (callback: () => void) => queueMicrotask(bindContext(callback)),
});

addEventListener('unhandledrejection', ({ reason }) => process.emit('unhandledRejection', reason));
addEventListener('error', ({ error }) => process.emit('uncaughtException', error));
