import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  ConnectionError,
  SessionExpiredError,
  type Session,
  type ZkClient,
} from '../client/index.js';

/** Waits until the connection is back and still serves `session`; an ended session rejects. */
export async function stillIn(
  client: ZkClient,
  session: Session,
  signal?: AbortSignal,
): Promise<void> {
  // The client hears of a broken connection in the next turn. Who tried again before would find all as
  // it was, try again, and keep that turn from coming until the session is lost.
  await nextTurn();
  if ((await client.session({ signal })) !== session) {
    throw new SessionExpiredError(`session 0x${session.id} ended`);
  }
}

/** Repeats a read over reconnects, never over sessions. */
export async function readWithin<T>(
  client: ZkClient,
  session: Session,
  read: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      await stillIn(client, session, signal);
    }
  }
}

/** Resolves at the next change of the connection's state. */
export function stateChange(client: ZkClient): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = client.onState(() => {
      unsubscribe();
      resolve();
    });
  });
}
