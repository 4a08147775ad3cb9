import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { checkFunction } from './validation.js';

/** A set of listeners: each runs in the asynchronous context it was added in, and one that throws or rejects harms no other. */
export class Listeners<T> {
  readonly #listeners = new Set<(value: T) => void>();
  readonly #untold: T[] = [];

  add(listener: (value: T) => void): () => void {
    checkFunction(listener, 'listener');
    // Not AsyncResource.bind, which also makes a deprecated property for each function.
    const context = new AsyncResource('ZooKeeperListener');
    const bound = (value: T) => context.runInAsyncScope(listener, undefined, value);
    this.#listeners.add(bound);
    return () => void this.#listeners.delete(bound);
  }

  /** For what has happened already: calls one listener with it, after the present code. */
  soon(listener: (value: T) => void, value: T): () => void {
    checkFunction(listener, 'listener');
    let removed = false;
    queueMicrotask(() => {
      if (!removed) call(listener, value);
    });
    return () => void (removed = true);
  }

  emit(value: T): void {
    // A listener may cause what comes next: all others hear of it second, too.
    if (this.#untold.push(value) > 1) return;
    for (; this.#untold.length > 0; this.#untold.shift()) {
      // A copy, because a listener may add others, and a look, because it may remove others.
      for (const listener of [...this.#listeners]) {
        if (this.#listeners.has(listener)) call(listener, this.#untold[0]!);
      }
    }
  }

  /** Forgets each listener before it is called. */
  emitOnce(value: T): void {
    for (const listener of [...this.#listeners]) {
      if (this.#listeners.delete(listener)) call(listener, value);
    }
  }
}

function call<T>(listener: (value: T) => unknown, value: T): void {
  try {
    const result = listener(value);
    if (result instanceof Promise) result.catch(warn);
  } catch (error) {
    warn(error);
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error));
}

/**
 * Runs a function outside of its caller's asynchronous context. The client's own timers and loops
 * live as long as it does: started plainly, they would keep the AsyncLocalStorage context of whoever
 * happened to connect (a request, a held lock) alive for ever and hand it to every listener.
 */
export const detached: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();
