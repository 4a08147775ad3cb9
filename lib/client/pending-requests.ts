import { setImmediate } from 'node:timers';
import { ConnectionError, type CoordinationError } from './errors.js';

/** Called once if a request gets no reply. */
export type Done = (reason: CoordinationError | undefined) => void;

/** The requests of a session that have no reply. */
export class PendingRequests {
  readonly #callbacks = new Set<Done>();

  add(done: Done): void {
    this.#callbacks.add(done);
  }

  /** Removes a request that has its reply. Returns false if `takeAll` has removed it before. */
  delete(done: Done): boolean {
    return this.#callbacks.delete(done);
  }

  takeAll(): Done[] {
    const taken = [...this.#callbacks];
    this.#callbacks.clear();
    return taken;
  }
}

/**
 * Rejects a request that was not sent, in the next turn of the event loop. A caller that retries at once would otherwise
 * keep that turn, in which the client learns of a broken connection, from ever running.
 */
export function rejectSoon(operation: string, path: string, done: Done): void {
  setImmediate(done, new ConnectionError(`${operation} ${path}: not connected to any server`));
}
