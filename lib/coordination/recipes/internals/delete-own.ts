import {
  ConnectionError,
  isCode,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  warn,
  type ZkClient,
} from '../../../client/index.js';
import { stateChange } from '../../../kernel/index.js';

/**
 * Deletes a znode if it is an ephemeral one of `session`. Resolves when the znode is deleted, or is left to the background
 * because the connection is lost. A znode of another session is left alone, also one that is created meanwhile.
 *
 * @param locate returns the path of the znode
 */
export async function deleteOwn(
  client: ZkClient,
  session: Session,
  locate: () => Promise<string> | string,
): Promise<void> {
  try {
    const path = await locate();
    // This server may lag behind the one that applied a create whose reply was lost.
    await session.sync(path);
    const stat = await session.exists(path);
    if (stat?.ephemeralOwner === session.id) await session.guaranteedDelete(path);
  } catch (error) {
    // The znode is gone, or is deleted with its session.
    if (isCode(error, 'NO_NODE') || error instanceof SessionExpiredError) return;
    if (error instanceof ShuttingDownError) return;
    if (!(error instanceof ConnectionError)) throw error;
    const reconnection = session.connected ? Promise.resolve() : stateChange(client);
    void reconnection.then(() => deleteOwn(client, session, locate)).catch(warn);
  }
}
