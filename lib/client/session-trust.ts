import type { CoordinationError, SessionExpiredError, ShuttingDownError } from './errors.js';
import { Listeners } from './listeners.js';

export type SessionEnd = SessionExpiredError | ShuttingDownError;

/** Whether a session may be relied on, and who is to be told when not: doubt passes, the end does not. */
export class Trust {
  readonly #lost = new Listeners<SessionEnd>();
  readonly #untrusted = new Listeners<CoordinationError>();
  #end: SessionEnd | undefined;
  #doubt: CoordinationError | undefined;

  get end(): SessionEnd | undefined {
    return this.#end;
  }

  onLost(listener: (reason: SessionEnd) => void): () => void {
    return this.#end ? this.#lost.soon(listener, this.#end) : this.#lost.add(listener);
  }

  onUntrusted(listener: (reason: CoordinationError) => void): () => void {
    return this.#doubt
      ? this.#untrusted.soon(listener, this.#doubt)
      : this.#untrusted.add(listener);
  }

  doubt(reason: CoordinationError): void {
    this.#doubt = reason;
    this.#untrusted.emitOnce(reason);
  }

  restore(): void {
    this.#doubt = this.#end;
  }

  finish(reason: SessionEnd): void {
    this.#end = reason;
    this.#lost.emitOnce(reason);
    this.doubt(reason);
  }
}
