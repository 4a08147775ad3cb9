import { SessionExpiredError, type Session, type ZkClient } from '../../client/index.js';

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
