import { BadOptionError, ifExists } from '../client/errors.js';
import type { Stat, ZkClient } from '../client/index.js';
import { checkRecord } from '../client/validation.js';
import type { Participant } from './types.js';
import { hasLingerMark, REVOKE_MESSAGE } from './node-data.js';
import { inOrder, LATCH, LOCK, type QueueNode, queueOf } from './node-names.js';
import { ownershipBy } from './ownership.js';

/** A znode of a queue, and what it holds or waits for. */
export interface QueueEntry {
  readonly node: Pick<QueueNode, 'name'>;
  readonly parent: string;
  readonly state: Participant['state'];
  readonly mode: Participant['mode'];
}

/** Lists the children of a path; none if the path does not exist. */
export async function childrenOf(client: ZkClient, path: string): Promise<readonly string[]> {
  return (await ifExists(client.children(path)))?.children ?? [];
}

/** Lists the znodes of a queue in their order. */
export async function readQueue(
  client: ZkClient,
  parent: string,
  markers: readonly string[],
): Promise<QueueNode[]> {
  return inOrder(queueOf({ parent, markers }, await childrenOf(client, parent)));
}

/** Reads what the znodes of a queue say about their owners. Leaves out znodes that are gone by then. */
export async function readParticipants(
  client: Pick<ZkClient, 'get'>,
  entries: readonly QueueEntry[],
): Promise<Participant[]> {
  const read = await Promise.all(entries.map((entry) => readParticipant(client, entry)));
  return read.filter((participant) => participant !== undefined);
}

async function readParticipant(
  client: Pick<ZkClient, 'get'>,
  { node, parent, state, mode }: QueueEntry,
): Promise<Participant | undefined> {
  const path = `${parent}/${node.name}`;
  const read = await ifExists(client.get(path));
  if (!read) return undefined;
  const { data, stat } = read;
  const seen = { path, state, mode, mayLinger: false, ...ownerOf(stat), ...parse(data) };
  if (state === 'waiting') return seen;
  const own = ownershipBy(node.name);
  if (!own) return { ...seen, mayLinger: hasLingerMark(data) };
  const grant = own.grants.first;
  const since = new Date(grant?.since ?? own.freeSince);
  if (!grant) return { ...seen, state: 'lingering', since, details: undefined };
  const holder = grant.data && parse(Buffer.from(grant.data));
  return { ...seen, ...holder, since, revoked: seen.revoked };
}

/** The greatest number of levels of the data of a participant, which any client may have written. */
const MAX_DATA_DEPTH = 100;
const TOO_DEEP = `left out: more than ${MAX_DATA_DEPTH} levels`;

function ownerOf({ ctime, ephemeralOwner }: Stat): Pick<Participant, 'since' | 'session'> {
  return { since: new Date(ctime), session: ephemeralOwner };
}

function parse(data: Buffer): Pick<Participant, 'revoked' | 'host' | 'pid' | 'details' | 'text'> {
  if (data.equals(REVOKE_MESSAGE)) return { revoked: true };
  const all = data.toString();
  try {
    const { host, pid, name, text, data: custom } = JSON.parse(all) as Record<string, unknown>;
    // Another library may write JSON as well.
    if (typeof host !== 'string' || typeof pid !== 'number') return { revoked: false, text: all };
    const isDeep = isDeeper(custom, MAX_DATA_DEPTH);
    const details = {
      name: stringOf(name),
      text: stringOf(text),
      data: isDeep ? TOO_DEEP : custom,
    };
    return { revoked: false, host, pid, details };
  } catch {
    return { revoked: false, text: all };
  }
}

/** JSON.stringify() overflows the stack at a few thousand levels, which JSON.parse() can read. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1));
}

function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/**
 * A participant of an election. Curator's Participant.
 *
 * @publicApi
 */
export interface LeaderParticipant {
  readonly id: string;
  readonly isLeader: boolean;
  /** The path of the znode. */
  readonly path: string;
  /** When the znode was created, by the clock of the ensemble. */
  readonly since: Date;
  /** The id of the session that owns the znode, in hexadecimal. Do not publish it, see `ZkClient.sessionId`. */
  readonly session: string;
}

/**
 * Reads the participants of the election at `parent`, in the order in which they lead.
 *
 * @param markers default: those of both recipes, because an observer does not know which one the participants use
 * @param limit the number of znodes to read
 */
export async function readCandidates(
  client: ZkClient,
  parent: string,
  markers: readonly string[] = [LATCH, LOCK],
  limit = Infinity,
): Promise<LeaderParticipant[]> {
  const queue = await readQueue(client, parent, markers);
  const read = await Promise.all(
    queue.slice(0, limit).map(async ({ name }) => {
      const path = `${parent}/${name}`;
      const node = await ifExists(client.get(path));
      return node && { id: node.data.toString(), path, ...ownerOf(node.stat) };
    }),
  );
  return read
    .filter((candidate) => candidate !== undefined)
    .map((candidate, index) => ({ ...candidate, isLeader: index === 0 }));
}

/**
 * Asks a participant to release its lock, by replacing the data of its znode (Curator's Revoker). The holder is notified
 * and decides itself. Does nothing if the znode is gone.
 *
 * @throws BadOptionError if the path is not that of a participant; NotAuthorizedError, ConnectionError, SessionExpiredError
 * @publicApi
 */
export async function revoke(
  client: ZkClient,
  participant: Pick<Participant, 'path'>,
): Promise<void> {
  checkRecord(participant);
  const { path } = participant;
  const stat = await client.exists(path);
  if (!stat) return;
  // The argument may come from a request.
  if (stat.ephemeralOwner === '0' || !/\d{10}$/.test(path)) {
    throw new BadOptionError('participant.path', path, 'the path of the znode of a participant');
  }
  await ifExists(client.set(path, REVOKE_MESSAGE));
}
