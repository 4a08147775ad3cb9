/*
 * Asynchronous context for a browser. The bundle has no async functions, because the build lowers them to promises.
 * So the context passes from `then()`, `queueMicrotask()`, `nextTick()` and `setImmediate()` to their callbacks only.
 */

/** The stores of the running code, by their keys. It is never changed, only replaced. */
let stores: ReadonlyMap<object, unknown> = new Map();

type Callback = (...args: never[]) => unknown;

function runWith<T>(other: typeof stores, fn: () => T): T {
  const before = stores;
  stores = other;
  try {
    return fn();
  } finally {
    stores = before;
  }
}

/** Returns a function that calls `callback` in the present context. Other values are returned as they are. */
export function bindContext<T>(callback: T): T {
  if (typeof callback !== 'function') return callback;
  const captured = stores;
  return function (this: unknown, ...args: unknown[]) {
    return runWith(captured, () => Reflect.apply(callback, this, args) as unknown);
  } as T;
}

const { then } = Promise.prototype;
// oxlint-disable-next-line no-extend-native, unicorn/no-thenable
Promise.prototype.then = function (fulfilled, rejected) {
  return then.call(this, bindContext(fulfilled), bindContext(rejected)) as never;
};

export class AsyncLocalStorage<T> {
  #key = {};

  getStore(): T | undefined {
    return stores.get(this.#key) as T | undefined;
  }

  run<R>(store: T | undefined, fn: Callback, ...args: unknown[]): R {
    const others = new Map(stores).set(this.#key, store);
    return runWith(others, () => Reflect.apply(fn, undefined, args) as R);
  }

  exit<R>(fn: Callback, ...args: unknown[]): R {
    return this.run(undefined, fn, ...args);
  }

  enterWith(store: T): void {
    stores = new Map(stores).set(this.#key, store);
  }

  /** Removes the store of this object from all contexts. */
  disable(): void {
    this.#key = {};
  }
}

export class AsyncResource {
  readonly #stores = stores;

  runInAsyncScope<R>(fn: Callback, receiver?: unknown, ...args: unknown[]): R {
    return runWith(this.#stores, () => Reflect.apply(fn, receiver, args) as R);
  }

  emitDestroy(): this {
    return this;
  }
}

/** There are no asynchronous resources to observe. */
export function createHook() {
  const hook = { enable: () => hook, disable: () => hook };
  return hook;
}
