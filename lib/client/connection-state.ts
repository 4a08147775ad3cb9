import { Listeners } from './listeners.js';
import type { ConnectionState } from './types.js';

/** The events of a session. Their effect depends on the state of the connection. */
export type ConnectionEvent = 'attached' | 'detached' | 'lost' | 'closed';

/** All transitions. An event without an entry is ignored, such as `detached` after the session is lost. */
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
 * A change of the state of a client's connection, see {@link ZkClient.onState}.
 *
 * @publicApi
 */
export interface StateChange {
  readonly state: ConnectionState;
  /** The id of the session, hexadecimal, if there is one. */
  readonly sessionId: string | undefined;
  /** The cause of the states SUSPENDED, LOST and CLOSED. */
  readonly reason?: Error;
}

/** The state of a client's connection. Counterpart of Curator's ConnectionStateManager. */
export class ConnectionStateMachine {
  /** Changed by apply() only. */
  state: ConnectionState = 'CONNECTING';
  readonly #listeners = new Listeners<StateChange>();

  listen(listener: (change: StateChange) => void): () => void {
    return this.#listeners.add(listener);
  }

  apply(event: ConnectionEvent, sessionId: string | undefined, reason?: Error): void {
    const next = TRANSITIONS[this.state][event];
    if (!next) return;
    this.state = next;
    this.#listeners.emit({ state: next, sessionId, reason });
  }
}
