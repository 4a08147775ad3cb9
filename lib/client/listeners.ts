import { AsyncResource } from 'node:async_hooks';
import { textOf } from './errors.js';
import { ShortLivedMap } from './short-lived-map.js';
import { checkValue, FUNCTION } from './validation.js';

/**
 * A set of listeners. Each is called in the asynchronous context in which it was added. If one throws or
 * rejects, a process warning is emitted and the others are still called.
 */
export class Listeners<T> {
  readonly #listeners = new ShortLivedMap<(value: T) => void, true>();
  /** Values being emitted: the first one now, the others after it. */
  readonly #emitting: T[] = [];

  get size(): number {
    return this.#listeners.size;
  }

  clear(): void {
    this.#listeners.clear();
  }

  /** Returns a function that removes the listener. */
  add(listener: (value: T) => void): () => void {
    checkValue('listener', listener, FUNCTION);
    const context = captureContext('ZooKeeperListener');
    const bound = (value: T) => context.runInAsyncScope(listener, undefined, value);
    this.#listeners.set(bound, true);
    return () => void this.#listeners.delete(bound);
  }

  /** Calls one listener in a microtask, for a value that was emitted before. Returns a function that cancels it. */
  soon(listener: (value: T) => void, value: T): () => void {
    checkValue('listener', listener, FUNCTION);
    let removed = false;
    void Promise.resolve().then(() => {
      if (!removed) callListener(listener, value);
    });
    return () => void (removed = true);
  }

  emit(value: T): void {
    // If a listener emits, all listeners get the first value before the second.
    if (this.#emitting.push(value) > 1) return;
    for (; this.#emitting.length > 0; this.#emitting.shift()) {
      // A listener may add listeners (hence the copy) and remove others (hence the check).
      for (const listener of this.#listeners.keys()) {
        if (this.#listeners.has(listener)) callListener(listener, this.#emitting[0]!);
      }
    }
  }

  /** Removes each listener, then calls it. */
  emitOnce(value: T): void {
    for (const listener of this.#listeners.keys()) {
      if (this.#listeners.delete(listener)) callListener(listener, value);
    }
  }
}

/** Calls a listener. If it throws or rejects, a process warning is emitted. */
export function callListener<T>(listener: (value: T) => unknown, value: T): void {
  try {
    const result = listener(value);
    if (result instanceof Promise) result.catch(warn);
  } catch (error) {
    warn(error);
  }
}

export function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : textOf(error));
}

/**
 * Returns the caller's asynchronous context. The resource keeps it although it is destroyed at once: Jest's
 * --detectOpenHandles reports each resource that nobody has destroyed.
 */
export function captureContext(type: string): AsyncResource {
  const context = new AsyncResource(type, { requireManualDestroy: true });
  context.emitDestroy();
  return context;
}

const outside = captureContext('nestjs-zookeeper');

/**
 * Runs a function outside of its caller's asynchronous context. The client's timers and loops live as long as
 * the client: otherwise they would retain the AsyncLocalStorage context of the caller of connect() (an HTTP
 * request, a held lock) and pass it to every listener.
 */
export function detached<T>(fn: () => T): T {
  return outside.runInAsyncScope(fn);
}
