import type { Session, StateChange, ZkClient } from '../../lib/client/index.js';
import type { Credentials } from '../../lib/client/transport/transport.js';
import { expireSession } from './raw-client.js';

/** Returns the id and password of a session, which the library does not expose. */
export function credentialsOf(session: Session): Credentials {
  const credentials = session.credentials();
  if (!credentials) throw new Error('the session was never attached');
  return credentials;
}

/** Ends a session on the server at this port: a second connection attaches to it and closes it. */
export async function endSession(session: Session, port: number): Promise<void> {
  const { id, password } = credentialsOf(session);
  await expireSession(port, id, password);
}

/** Records the connection states of a client from now on. */
export function recordStates(client: ZkClient) {
  const changes: StateChange[] = [];
  const waiting = new Set<() => void>();
  client.onState((change) => {
    changes.push(change);
    for (const check of waiting) check();
  });
  return {
    changes,
    get states() {
      return changes.map(({ state }) => state);
    },
    /** Resolves when the recorded states end with these. */
    until(...states: StateChange['state'][]): Promise<void> {
      return new Promise((resolve) => {
        const check = () => {
          const seen = changes.slice(-states.length).map(({ state }) => state);
          if (seen.join() !== states.join()) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      });
    },
  };
}
