import { hostname } from 'node:os';
import { BadOptionError, NodeError } from '../client/errors.js';
import type { Stat, ZkClient } from '../client/index.js';
import { checkRecord } from '../client/validation.js';
import { REVOKE_MESSAGE } from './internals/node-watch.js';
import type { QueueNode } from './internals/node-names.js';
import { inOrder, queueOf } from './internals/node-names.js';

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

/**
 * What a holder or waiter tells about itself to whoever looks: kept in its znode beside the host and
 * the process id.
 *
 * @publicApi
 */
export interface HolderDetails {
  /** Of the service or instance. */
  name?: string;
  /** For people to read. */
  text?: string;
  /** Anything that JSON can say. */
  data?: unknown;
}

/** Bytes. It travels with each acquire. */
const LONGEST = 4096;

const HERE = { host: hostname(), pid: process.pid };
const plain = new Map<number | undefined, Uint8Array>();

/** The data of a node of ours. Curator puts the host's address there. */
export function holderData(details: HolderDetails | undefined, permits?: number): Uint8Array {
  return details === undefined ? plainData(permits) : encode(details, permits, 'details');
}

/** Without details it is the same again and again: made once for each number of permits. */
function plainData(permits: number | undefined): Uint8Array {
  let data = plain.get(permits);
  if (!data) plain.set(permits, (data = encode({}, permits, 'details')));
  return data;
}

/** @param option what errors call the details */
export function checkDetails(
  details: unknown,
  option: string,
): asserts details is HolderDetails | undefined {
  if (details !== undefined) encode(details, undefined, option);
}

function encode(details: unknown, permits: number | undefined, option: string): Uint8Array {
  if (typeof details !== 'object' || details === null) {
    throw new BadOptionError(option, details, 'an object of name, text and data');
  }
  const { name, text, data } = details as Record<string, unknown>;
  for (const [field, value] of Object.entries({ name, text })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new BadOptionError(`${option}.${field}`, value, 'a string');
    }
  }
  const bytes = Buffer.from(json({ ...HERE, name, text, data, permits }, data, option));
  if (bytes.length > LONGEST) {
    throw new BadOptionError(option, details, `at most ${LONGEST} bytes of JSON`);
  }
  return bytes;
}

/** JSON cannot say a BigInt or a cycle. */
function json(value: object, data: unknown, option: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new BadOptionError(`${option}.data`, data, 'something that JSON can say', { cause });
  }
}
