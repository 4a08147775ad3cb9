import type { ProbeSession } from './probe-session.js';
import { CoordinationError } from '../../client/index.js';
import { type Check, count } from './report.js';
import type { ServerFinding, UsableServer } from './servers.js';

const MEMBER = /^server\.\d+=.*:participant\b/gm;

/** Checks how many of the listed servers can be used. */
export async function checkQuorum(
  members: readonly ServerFinding[],
  [first]: readonly UsableServer[],
): Promise<Check> {
  const usable = members.filter(({ session }) => session).length;
  const majority = Math.floor(members.length / 2) + 1;
  const size = first && first.session.kind === 'zookeeper' ? await sizeOf(first.session) : 0;
  const found = `${usable} of ${count(members.length, 'server')} of the connect string can be used`;
  const check = { check: 'quorum', subject: 'quorum' } as const;
  const data = { usable, listed: members.length, majority, ensemble: size || null };
  const down = members.filter(({ session }) => !session).map(({ label }) => label);
  if (usable === 0) {
    const advice = 'follow the advice above: without a majority, no lock is granted';
    return { ...check, status: 'unsafe', found, advice, data };
  }
  if (usable < majority) {
    // A server grants a session only if its ensemble has a majority.
    const advice = `repair ${down.join(', ')}, or remove what does not belong to the ensemble from the connect string`;
    return { ...check, status: 'limit', found, advice, data };
  }
  if (usable < members.length) {
    const advice = `repair ${down.join(', ')}: ${remaining(usable, majority)}`;
    return { ...check, status: 'limit', found, advice, data };
  }
  if (size > members.length) {
    const advice = `name all ${size} servers in the connect string, or a name that leads to all of them: clients cannot use the others when these fail`;
    const listed = `${found}; the ensemble has ${size}`;
    return { ...check, status: 'limit', found: listed, advice, data };
  }
  return { ...check, status: 'ok', found, data };
}

function remaining(usable: number, majority: number): string {
  const spare = usable - majority;
  return spare === 0
    ? 'if one more server fails, no lock is granted'
    : `${spare} more may fail before no lock is granted`;
}

/** Resolves to the number of voting servers in the configuration of ZooKeeper; 0 if it is not readable. */
async function sizeOf(session: ProbeSession): Promise<number> {
  try {
    return (await session.get('/zookeeper/config')).match(MEMBER)?.length ?? 0;
  } catch (error) {
    if (error instanceof CoordinationError) return 0;
    throw error;
  }
}

/**
 * Checks that the servers are one ensemble: an ephemeral znode of the first one must be visible on all. Otherwise clients of
 * different servers would hold the same lock.
 */
export async function checkSameEnsemble(
  servers: readonly UsableServer[],
  znode: string,
): Promise<Check | undefined> {
  if (servers.length < 2) return undefined;
  const strangers: string[] = [];
  for (const { session, label } of servers) {
    await session.sync('/');
    if (!(await session.exists(znode))) strangers.push(label);
  }
  const check = { check: 'quorum', subject: 'ensemble' } as const;
  if (strangers.length === 0) {
    return { ...check, status: 'ok', found: 'all servers show the same znodes' };
  }
  return {
    ...check,
    status: 'unsafe',
    found: `${strangers.join(', ')}: the znodes of ${servers[0]!.label} are missing, so two clients can hold one lock`,
    advice: 'name the servers of one ensemble only',
  };
}
