import { createHook } from 'node:async_hooks';
import { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import type { Scheduler } from './scheduler.js';

const REAL_TIMER = 'a timer of the real event loop';

/** The end of the message if the real I/O is that of a dynamic import. */
const IMPORT_REMEDY =
  '; it was a dynamic import() of a module that is not loaded yet, which the test can import at its top';

/**
 * The prefixes of the types of Node's async resources that complete in real time. Output to a terminal or to a parent
 * process is allowed, because no code waits for it.
 */
const RESOURCES: readonly [prefix: RegExp, name: string][] = [
  [/^(TCP|TLS)/, 'a socket'],
  [/^UDP/, 'a UDP socket'],
  [/^PIPE/, 'a pipe'],
  [/^HTTP/, 'an HTTP request'],
  [/^FSREQ/, 'a file'],
  [/^(FSEVENT|STATWATCHER)/, 'a file watcher'],
  [/^(GETADDRINFO|GETNAMEINFO|QUERY)/, 'a name look-up'],
  [/^PROCESS/, 'a child process'],
  [/^WORKER/, 'a worker thread'],
  [/^MESSAGEPORT/, 'a message port'],
  [/^(Timeout|Immediate)$/, REAL_TIMER],
];

/** Calls that use a resource from before the simulation, and so do not create one. */
const CALLS: readonly [prototype: object, method: string, name: string][] = [
  [Socket.prototype, 'write', 'a socket'],
  [Socket.prototype, 'end', 'a socket'],
  [Worker.prototype, 'postMessage', 'a worker thread'],
];

/** A line in the stack of output to a console. A test runner may pass the output on by a real timer. */
const CONSOLE_FRAME = /\(node:internal\/console\//;

/**
 * The lines in the stack of a timer that a module of Node starts for itself. Its immediates, such as those of a
 * `PerformanceObserver`, run in the same order in each run. Its unreferenced timers do not call the code under test: one
 * caches the date in the headers of HTTP responses.
 */
const NODE_TIMER = /setImmediate \(node:timers.*\n.*\(node:|setUnrefTimeout \(node:/;

/** A line in the stack of a dynamic import of a module that was not loaded before. */
const IMPORT_FRAME = /\(node:internal\/modules\/esm\//;

/** A line in the stack of a job of `crypto.subtle`. From Node 24 on, such a job has no callback. */
const PROMISED_JOB_FRAME = /jobPromise \(node:internal\/crypto\//;

const STACK_FRAMES = 30;

/**
 * The types of resources that belong to synchronous functions too, such as `gzipSync`. The property is a function once an
 * asynchronous operation has started.
 */
const THREAD_POOL_RESOURCES: readonly [
  type: RegExp,
  name: string,
  callback: keyof ThreadPoolResource,
][] = [
  [/^ZLIB$/, 'compression', 'cb'],
  [/REQUEST$/, 'cryptography', 'ondone'],
];

interface ThreadPoolResource {
  cb?: unknown;
  ondone?: unknown;
}

interface RealIo {
  /** Its stack shows the code that started the I/O. */
  readonly error: Error;
  /** The virtual time at which the I/O started. */
  readonly at: number;
}

/** Detects operations of the code under test that complete in real time. */
export class RealIoDetector {
  #found: RealIo | undefined;
  /** Resources that may be synchronous. A zlib stream starts when the code writes to it. */
  #undecided: {
    readonly resource: WeakRef<ThreadPoolResource>;
    readonly callback: keyof ThreadPoolResource;
    readonly io: RealIo;
  }[] = [];
  // Without hooks for promises Node 24 is faster. Node 20 ignores the option.
  readonly #hook = createHook({
    init: (_id: number, type: string, _trigger: number, resource: object) => {
      if (type === 'PROMISE' || this.#found || !this.scheduler.active) return;
      const known = RESOURCES.find(([prefix]) => prefix.test(type));
      if (known) return this.#started(known[1], type);
      for (const [pattern, name, callback] of THREAD_POOL_RESOURCES) {
        if (!pattern.test(type)) continue;
        const io = { error: realIoError(name, type), at: this.scheduler.time };
        if (PROMISED_JOB_FRAME.test(io.error.stack ?? '')) return this.#started(name, type);
        this.#undecided.push({ resource: new WeakRef(resource), callback, io });
      }
    },
    ...{ trackPromises: false },
  });
  readonly #restoreCalls: () => void;

  constructor(private readonly scheduler: Scheduler) {
    // Node opens these streams on first use, which must not count as I/O of the code under test.
    const output = new Set<unknown>([process.stdout, process.stderr]);
    const restoreFunctions = CALLS.map(([prototype, method, name]) => {
      const before = Reflect.getOwnPropertyDescriptor(prototype, method);
      const original = Reflect.get(prototype, method) as (...args: unknown[]) => unknown;
      const started = () => this.#started(name, `${method}()`);
      const value = function (this: unknown, ...args: unknown[]) {
        if (!output.has(this)) started();
        return Reflect.apply(original, this, args);
      };
      Object.defineProperty(prototype, method, { value, configurable: true, writable: true });
      return () => {
        if (before) Object.defineProperty(prototype, method, before);
        else Reflect.deleteProperty(prototype, method);
      };
    });
    this.#restoreCalls = () => {
      for (const restore of restoreFunctions) restore();
    };
    this.#hook.enable();
  }

  /** The first real I/O that was started, if any. */
  get found(): RealIo | undefined {
    this.#undecided = this.#undecided.filter(({ resource, callback, io }) => {
      const started = typeof resource.deref()?.[callback] === 'function';
      if (started) this.#found ??= io;
      // A cryptographic operation starts at once.
      return !started && callback === 'cb' && resource.deref() !== undefined;
    });
    return this.#found;
  }

  /**
   * Throws if real I/O was started.
   *
   * @throws Error that names the real I/O
   */
  check(): void {
    const { found } = this;
    if (found) throw found.error;
  }

  disable(): void {
    this.#hook.disable();
    this.#restoreCalls();
  }

  #started(name: string, type: string): void {
    if (this.#found || !this.scheduler.active) return;
    const error = realIoError(name, type);
    const stack = error.stack ?? '';
    if (CONSOLE_FRAME.test(stack) || (name === REAL_TIMER && NODE_TIMER.test(stack))) return;
    if (IMPORT_FRAME.test(stack)) error.message += IMPORT_REMEDY;
    this.#found = { error, at: this.scheduler.time };
  }
}

function realIoError(name: string, type: string): Error {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = STACK_FRAMES;
  const error = new Error(
    `the code under test started real I/O, ${name} (${type}), which virtual time cannot wait for; ${remedy(name)}`,
  );
  Error.stackTraceLimit = stackTraceLimit;
  return error;
}

function remedy(name: string): string {
  if (name === REAL_TIMER) {
    return 'it called a timer function that was stored in a variable before the simulation, as vi.waitFor() and expect.poll() do; let it read the function from globalThis, node:timers or node:timers/promises at each call';
  }
  return 'load modules and files before the simulation, and replace other services by fakes';
}
