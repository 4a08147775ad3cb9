import { listen, typedChannel } from '../../client/diagnostics.js';
import { foreignText, quotedKey } from '../../client/errors.js';
import type { Session, ZkClient } from '../../client/index.js';
import { warn } from '../../client/listeners.js';
import { checkFunction } from '../../client/validation.js';
import type { Deadlock, DeadlockMember, Participant } from '../types.js';
import { READ, WRITE } from '../node-names.js';
import { readParticipants } from '../participants.js';
import type { Claim } from './nested-wait.js';
import type { Cycle } from './search.js';

const deadlocks = typedChannel<Deadlock>('nestjs-zookeeper:deadlock');

const UNAWAITED =
  'If a holder does not await its wait, this is no deadlock: start such a branch with runDetached()';

/**
 * Calls a listener once with each deadlock of a call chain of this process, and with each cycle of waits that only looks
 * like one, because a holder does not await its wait: start such a wait with {@link runDetached}. Each process of the cycle
 * reports it on its own. The same message is published on the channel `nestjs-zookeeper:deadlock` of
 * `node:diagnostics_channel`. If nobody is subscribed, a deadlock becomes a process warning.
 *
 * @param client reports only deadlocks of this client; default: of all clients
 * @returns a function that removes the listener
 * @publicApi
 */
export function onDeadlock(
  listener: (deadlock: Deadlock) => void,
  { client }: { client?: ZkClient } = {},
): () => void {
  checkFunction(listener, 'listener');
  return listen(deadlocks, (deadlock) => {
    if (client !== undefined && deadlock.client !== client) return;
    try {
      listener(deadlock);
    } catch (error) {
      warn(error);
    }
  });
}

export function publish(deadlock: Deadlock): void {
  if (deadlocks.hasSubscribers) deadlocks.publish(deadlock);
  else process.emitWarning(deadlock.message, { code: 'ZK_DEADLOCK' });
}

/**
 * Resolves to undefined if one of the holders is gone by now.
 *
 * @param here the claims of this process
 */
export async function describe(
  client: ZkClient,
  cycle: Cycle,
  here: readonly Claim[],
): Promise<Deadlock | undefined> {
  const holders = await Promise.all(cycle.map((step) => holderOf(step.session, step.claim.node)));
  const members = cycle.map(({ claim }, index) => ({
    key: claim.key,
    holder: holders[index]!,
    waitsFor: cycle[(index + 1) % cycle.length]!.claim.key,
    here: here.includes(claim),
    endsAt: claim.until === undefined ? undefined : new Date(claim.until),
  }));
  if (!holders.every((holder) => holder !== undefined)) return undefined;
  const message = `deadlock: ${members.map(sentence).join('; ')}. ${UNAWAITED}`;
  return { client, cycle: members, message };
}

async function holderOf(session: Session, node: string): Promise<Participant | undefined> {
  const slash = node.lastIndexOf('/');
  const name = node.slice(slash + 1);
  const parent = node.slice(0, slash);
  const mode = name.includes(READ) ? 'read' : name.includes(WRITE) ? 'write' : 'exclusive';
  const entries = [{ node: { name }, parent, state: 'holding', mode }] as const;
  const [holder] = await readParticipants(session, entries);
  return holder;
}

function sentence({ key, holder, waitsFor, here, endsAt }: DeadlockMember): string {
  const { host, pid, details, path } = holder;
  const who = here ? `this process (${pid})` : foreignText(host ? `${host} pid ${pid}` : path);
  const description = foreignText([details?.name, details?.text].filter(Boolean).join(': '));
  const end = endsAt ? ` until ${endsAt.toISOString()}` : '';
  return `${quotedKey(key)} is held by ${who}${description && ` (${description})`}, which waits for ${quotedKey(waitsFor)}${end}`;
}
