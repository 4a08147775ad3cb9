type Listener = (...args: never[]) => unknown;

export class EventEmitter {
  readonly #listeners = new Map<unknown, Listener[]>();

  on(event: unknown, listener: Listener): this {
    this.#listeners.set(event, [...this.listeners(event), listener]);
    return this;
  }

  once(event: unknown, listener: Listener): this {
    const first: Listener = (...args) => {
      this.off(event, first);
      return Reflect.apply(listener, this, args) as unknown;
    };
    return this.on(event, first);
  }

  off(event: unknown, listener: Listener): this {
    const others = this.listeners(event).filter((each) => each !== listener);
    this.#listeners.set(event, others);
    return this;
  }

  emit(event: unknown, ...args: unknown[]): boolean {
    const listeners = this.listeners(event);
    if (listeners.length === 0 && event === 'error') throw args[0];
    for (const listener of listeners) Reflect.apply(listener, this, args);
    return listeners.length > 0;
  }

  listeners(event: unknown): readonly Listener[] {
    return this.#listeners.get(event) ?? [];
  }

  listenerCount(event: unknown): number {
    return this.listeners(event).length;
  }

  removeAllListeners(event: unknown): this {
    this.#listeners.delete(event);
    return this;
  }
}

/** The number of listeners is not limited here. */
export function setMaxListeners(): void {}

export { unavailable as once } from './unavailable.js';
