import { NodeError } from '../client/errors.js';
import type { Stat, ZkClient } from '../client/index.js';
import type { HolderDetails } from './holder-details.js';
import { REVOKE_MESSAGE } from './node-watch.js';
import type { QueueNode } from './queue-names.js';

/**
 * Somebody who holds a lock or waits for it: one entry for each znode, so a process whose callers
 * queue inside of it shows once.
 *
 * @publicApi
 */
export interface Participant {
  /** Of the znode. */
  readonly path: string;
  readonly state: 'holding' | 'waiting';
  /** What the holder does or the waiter wants. */
  readonly mode: 'exclusive' | 'read' | 'write' | 'permit';
  /** Since when the znode is there, by the ensemble's clock. */
  readonly since: Date;
  /** The id of its session, hexadecimal. */
  readonly session: string;
  /** Somebody asked this holder to give the lock back; its details are overwritten then. */
  readonly revoked: boolean;
  /** Of nodes of this library. */
  readonly host?: string;
  /** Of nodes of this library. */
  readonly pid?: number;
  readonly details?: HolderDetails;
  /** What a node of others says, as text: the host's address where Curator made it. */
  readonly text?: string;
}

export interface Seat {
  readonly node: QueueNode;
  readonly parent: string;
  readonly state: Participant['state'];
  readonly mode: Participant['mode'];
}

/** Reads what the nodes of a queue say about those who made them; without those that are gone by then. */
export async function readParticipants(
  client: Pick<ZkClient, 'get'>,
  seats: readonly Seat[],
): Promise<Participant[]> {
  const read = await Promise.all(seats.map((seat) => readParticipant(client, seat)));
  return read.filter((participant) => participant !== undefined);
}

/** Children of a path that may be missing, and then has none. */
export async function childrenOf(client: ZkClient, path: string): Promise<readonly string[]> {
  try {
    return (await client.children(path)).children;
  } catch (error) {
    if (error instanceof NodeError && error.code === 'NO_NODE') return [];
    throw error;
  }
}

async function readParticipant(
  client: Pick<ZkClient, 'get'>,
  { node, parent, state, mode }: Seat,
): Promise<Participant | undefined> {
  const path = `${parent}/${node.name}`;
  const read = await readNode(client, path);
  return read && { path, state, mode, ...originOf(read.stat), ...parse(read.data) };
}

/** Undefined where the node is gone. */
export async function readNode(
  client: Pick<ZkClient, 'get'>,
  path: string,
): Promise<{ data: Buffer; stat: Stat } | undefined> {
  try {
    return await client.get(path);
  } catch (error) {
    if (error instanceof NodeError && error.code === 'NO_NODE') return undefined;
    throw error;
  }
}

export function originOf({ ctime, ephemeralOwner }: Stat): Pick<Participant, 'since' | 'session'> {
  return { since: new Date(ctime), session: ephemeralOwner };
}

function parse(data: Buffer): Pick<Participant, 'revoked' | 'host' | 'pid' | 'details' | 'text'> {
  if (data.equals(REVOKE_MESSAGE)) return { revoked: true };
  const text = data.toString();
  try {
    const { host, pid, name, text: said, data: custom } = JSON.parse(text) as Record<string, never>;
    // What others write may be JSON too.
    if (typeof host !== 'string' || typeof pid !== 'number') return { revoked: false, text };
    return { revoked: false, host, pid, details: { name, text: said, data: custom } };
  } catch {
    return { revoked: false, text };
  }
}
