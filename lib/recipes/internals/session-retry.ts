import {
  ConnectionError,
  SessionExpiredError,
  type Session,
  type ZkClient,
} from '../../client/index.js';

/** Waits until the connection is back and still serves `session`; an ended session rejects. */
export async function stillIn(
  client: ZkClient,
  session: Session,
  signal?: AbortSignal,
): Promise<void> {
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

/** Repeats `take` in the session of the time, until it resolves with something or the signal aborts. */
export async function inSession<T>(
  client: ZkClient,
  signal: AbortSignal,
  take: (session: Session) => Promise<T | undefined>,
): Promise<T> {
  for (;;) {
    const session = await client.session({ signal });
    try {
      const result = await take(session);
      if (result !== undefined) return result;
    } catch (error) {
      if (signal.aborted || !(error instanceof SessionExpiredError)) throw error;
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
