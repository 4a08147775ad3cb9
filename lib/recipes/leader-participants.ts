import type { ZkClient } from '../client/index.js';
import { childrenOf, originOf, readNode } from './participants.js';
import { inOrder, queueOf } from './queue-names.js';

/**
 * Somebody who takes part in an election; Curator's Participant.
 *
 * @publicApi
 */
export interface LeaderParticipant {
  readonly id: string;
  readonly isLeader: boolean;
  /** Of the znode. */
  readonly path: string;
  /** Since when the znode is there, by the ensemble's clock. */
  readonly since: Date;
  /** The id of its session, hexadecimal. */
  readonly session: string;
}

export const LATCH = 'latch-';
export const SELECTOR = 'lock-';
/** Of both: whoever takes no part does not know which of them the others use. */
const MARKERS = [LATCH, SELECTOR];

/** The participants of the election at `parent`, in the order in which they lead. */
export async function readCandidates(
  client: ZkClient,
  parent: string,
  markers: readonly string[] = MARKERS,
): Promise<LeaderParticipant[]> {
  const queue = queueOf({ parent, markers }, await childrenOf(client, parent));
  const read = await Promise.all(
    inOrder(queue).map(async ({ name }) => {
      const path = `${parent}/${name}`;
      const node = await readNode(client, path);
      return node && { id: node.data.toString(), path, ...originOf(node.stat) };
    }),
  );
  return read
    .filter((candidate) => candidate !== undefined)
    .map((candidate, index) => ({ ...candidate, isLeader: index === 0 }));
}
