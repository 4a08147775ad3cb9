import { Listeners } from './listeners.js';
import type { ConnectionState } from './types.js';

/** What happens to a connection; what that means depends on the state it happens in. */
export type ConnectionEvent = 'attached' | 'detached' | 'lost' | 'closed';

/**
 * Every transition there is. An event without an entry changes nothing: a connection that drops while
 * no session is left has nothing more to suspend.
 */
const TRANSITIONS: Readonly<
  Record<ConnectionState, Readonly<Partial<Record<ConnectionEvent, ConnectionState>>>>
> = {
  CONNECTING: { attached: 'CONNECTED', closed: 'CLOSED' },
  CONNECTED: { detached: 'SUSPENDED', lost: 'LOST', closed: 'CLOSED' },
  SUSPENDED: { attached: 'RECONNECTED', lost: 'LOST', closed: 'CLOSED' },
  RECONNECTED: { detached: 'SUSPENDED', lost: 'LOST', closed: 'CLOSED' },
  LOST: { attached: 'CONNECTED', closed: 'CLOSED' },
  CLOSED: {},
};

/**
 * What {@link ZkClient.onState} tells.
 *
 * @publicApi
 */
export interface StateChange {
  readonly state: ConnectionState;
  /** The session the change is about, if there is one. */
  readonly sessionId: string | undefined;
  /** Why, for the worse. */
  readonly reason?: Error;
}

/** Counterpart of Curator's ConnectionStateManager. */
export class StateMachine {
  readonly #listeners = new Listeners<StateChange>();
  #state: ConnectionState = 'CONNECTING';

  get state(): ConnectionState {
    return this.#state;
  }

  listen(listener: (change: StateChange) => void): () => void {
    return this.#listeners.add(listener);
  }

  apply(event: ConnectionEvent, sessionId: string | undefined, reason?: Error): void {
    const next = TRANSITIONS[this.#state][event];
    if (!next) return;
    this.#state = next;
    this.#listeners.emit({ state: next, sessionId, reason });
  }
}
