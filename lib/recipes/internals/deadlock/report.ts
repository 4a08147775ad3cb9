import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Session, ZkClient } from '../../../client/index.js';
import { checkFunction } from '../../../client/validation.js';
import { type Participant, readParticipants } from '../../participants.js';
import type { Cycle } from './search.js';

/**
 * One of those who wait for each other.
 *
 * @publicApi
 */
export interface DeadlockMember {
  /** What it holds, as it calls it. */
  readonly key: string;
  /** Who holds that: the znode, and what it says of its holder. */
  readonly holder: Participant;
  /** What it waits for, as the one calls it who holds that. */
  readonly waitsFor: string;
  /** It is of this process. */
  readonly here: boolean;
  /** Its wait is the one that is refused. */
  readonly refused: boolean;
  /** When its wait ends by itself, by its machine's clock, to a fifth of a second; undefined: never. */
  readonly endsAt?: Date;
}

/**
 * A cycle of waits: each for what the next one holds, the last for what the first one holds.
 *
 * @publicApi
 */
export interface Deadlock {
  readonly client: ZkClient;
  readonly cycle: readonly DeadlockMember[];
  /** For people to read. */
  readonly message: string;
}

const NAME = 'nestjs-zookeeper:deadlock';
const told = channel(NAME);

/**
 * Called with each deadlock that a call chain of this process is in, once, of one client or of all. Each
 * process in it is told on its own. Returns what removes the listener. The same comes by
 * `node:diagnostics_channel` as `nestjs-zookeeper:deadlock`; where nobody listens it is a process warning.
 *
 * @publicApi
 */
export function onDeadlock(
  listener: (deadlock: Deadlock) => void,
  { client }: { client?: ZkClient } = {},
): () => void {
  checkFunction(listener, 'listener');
  const tell = (message: unknown) => {
    const deadlock = message as Deadlock;
    if (client !== undefined && deadlock.client !== client) return;
    try {
      listener(deadlock);
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  };
  subscribe(NAME, tell);
  return () => void unsubscribe(NAME, tell);
}

export function tell(deadlock: Deadlock): void {
  if (told.hasSubscribers) told.publish(deadlock);
  else process.emitWarning(deadlock.message, { code: 'ZK_DEADLOCK' });
}

/** Undefined where one of its holders is gone by now. */
export async function describe(
  client: ZkClient,
  cycle: Cycle,
  isHere: (node: string) => boolean,
  isRefused: (node: string) => boolean,
): Promise<Deadlock | undefined> {
  const holders = await Promise.all(cycle.map((step) => holderOf(step.session, step.claim.node)));
  const members = cycle.map(({ claim: { node, key, until } }, index) => ({
    key,
    holder: holders[index]!,
    waitsFor: cycle[(index + 1) % cycle.length]!.claim.key,
    here: isHere(node),
    refused: isRefused(node),
    endsAt: until === undefined ? undefined : new Date(until),
  }));
  if (!holders.every((holder) => holder !== undefined)) return undefined;
  return { client, cycle: members, message: `deadlock: ${members.map(sentence).join('; ')}` };
}

async function holderOf(session: Session, node: string): Promise<Participant | undefined> {
  const slash = node.lastIndexOf('/');
  const name = node.slice(slash + 1);
  const mode = name.includes('__READ__')
    ? 'read'
    : name.includes('__WRIT__')
      ? 'write'
      : 'exclusive';
  const seat = { node: { name, marker: '', sequence: 0 }, parent: node.slice(0, slash), mode };
  const [holder] = await readParticipants(session, [{ ...seat, mode, state: 'holding' }]);
  return holder;
}

function sentence({ key, holder, waitsFor, here, refused, endsAt }: DeadlockMember): string {
  const { host, pid, details, path } = holder;
  const who = here ? `this process (${pid})` : host ? `${host} pid ${pid}` : path;
  const says = [details?.name, details?.text].filter(Boolean).join(': ');
  const end = endsAt ? ` until ${endsAt.toISOString()}` : '';
  const fate = refused ? ', and is refused that' : '';
  return `${JSON.stringify(key)} is held by ${who}${says && ` (${says})`}, which waits for ${JSON.stringify(waitsFor)}${end}${fate}`;
}
