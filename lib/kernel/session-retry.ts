import {
  ConnectionError,
  SessionExpiredError,
  type Session,
  type ZkClient,
} from '../client/index.js';

/**
 * Waits until the client is connected.
 *
 * @throws SessionExpiredError if the client has another session by then
 */
export async function assertSameSession(
  client: ZkClient,
  session: Session,
  signal?: AbortSignal,
): Promise<void> {
  if ((await client.session({ signal })) !== session) {
    throw new SessionExpiredError('the session ended');
  }
}

/** Repeats a read after a lost connection, but only in the same session. */
export async function retryRead<T>(
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
      await assertSameSession(client, session, signal);
    }
  }
}

/** Resolves at the next change of the state of the connection. */
export function stateChange(client: ZkClient): Promise<void> {
  return new Promise((resolve) => {
    const unsubscribe = client.onState(() => {
      unsubscribe();
      resolve();
    });
  });
}
