import { NodeError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { checkRecord } from '../client/validation.js';
import { REVOKE_MESSAGE } from './node-watch.js';
import type { Participant } from './participants.js';

/*
 * Revocation (Curator's Revoker): the data of a holder's znode becomes `__REVOKE__`. The holder that
 * watches its node is told and gives the lock back when it can; nothing forces it.
 */

/**
 * Asks one participant to give its lock back. One that is gone meanwhile is no error.
 *
 * @publicApi
 */
export async function revoke(
  client: ZkClient,
  participant: Pick<Participant, 'path'>,
): Promise<void> {
  checkRecord(participant);
  try {
    await client.set(participant.path, REVOKE_MESSAGE);
  } catch (error) {
    if (!(error instanceof NodeError && error.code === 'NO_NODE')) throw error;
  }
}
