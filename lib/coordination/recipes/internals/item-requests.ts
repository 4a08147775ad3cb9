import {
  ConnectionError,
  isCode,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  type Stat,
  type ZkClient,
} from '../../../client/index.js';
import { stateChange } from '../../../kernel/index.js';

/**
 * Resolves when the session has a connection. In contrast to `assertSameSession` it waits longer than the retry policy: a lock
 * blocks its item as long as the session lives, so the consumer must delete it.
 *
 * @throws SessionExpiredError if the session ended
 */
export async function waitForConnection(client: ZkClient, session: Session): Promise<void> {
  while (session.alive) {
    if (session.connected) return;
    await stateChange(client);
  }
  throw new SessionExpiredError('the session ended');
}

/** Repeats a request after a lost connection. Resolves to undefined if the znode does not exist or has another version. */
export async function retryInSession<T>(
  client: ZkClient,
  session: Session,
  request: () => Promise<T>,
): Promise<T | undefined> {
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (isCode(error, 'NO_NODE') || isCode(error, 'BAD_VERSION')) return undefined;
      if (!(error instanceof ConnectionError)) throw error;
      await waitForConnection(client, session);
    }
  }
}

/**
 * Deletes an item, whose lock the caller has. After a lost connection the znode with this name may be another one, if the
 * queue was deleted and created again.
 *
 * @param isCurrent whether the connection was not lost since the item was read
 */
export async function deleteItem(
  client: ZkClient,
  session: Session,
  path: string,
  { czxid }: Stat,
  isCurrent: boolean,
): Promise<void> {
  let checked = isCurrent;
  await retryInSession(client, session, async () => {
    if (!checked) {
      await session.sync(path);
      if ((await session.exists(path))?.czxid !== czxid) return;
    }
    checked = false;
    await session.delete(path);
  });
}

export function isConnectionLoss(error: unknown): boolean {
  return (
    error instanceof ConnectionError ||
    error instanceof SessionExpiredError ||
    error instanceof ShuttingDownError
  );
}
