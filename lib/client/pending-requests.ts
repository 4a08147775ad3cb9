import { setImmediate } from 'node:timers';
import { ConnectionError, type CoordinationError } from './errors.js';

/** Rejects a request that will get no reply. */
export type OnFailure = (reason: CoordinationError | undefined) => void;

/** The requests of a session that have no reply. */
export class PendingRequests {
  readonly #callbacks = new Set<OnFailure>();

  add(fail: OnFailure): void {
    this.#callbacks.add(fail);
  }

  /** Removes a request that has its reply. Returns false if `takeAll` has removed it before. */
  delete(fail: OnFailure): boolean {
    return this.#callbacks.delete(fail);
  }

  takeAll(): OnFailure[] {
    const taken = [...this.#callbacks];
    this.#callbacks.clear();
    return taken;
  }
}

/**
 * Rejects a request that was not sent, in the next turn of the event loop. A caller that retries at once would otherwise
 * keep that turn, in which the client learns of a broken connection, from ever running.
 */
export function rejectSoon(operation: string, path: string, fail: OnFailure): void {
  setImmediate(fail, new ConnectionError(`${operation} ${path}: not connected to any server`));
}
