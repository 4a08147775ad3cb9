import { failureOf, isCode } from './probe-session.js';
import { type Check, count } from './report.js';
import type { ServerFinding, UsableServer } from './servers.js';

/** The size of an ensemble; undefined if only the listed servers are known. */
export type EnsembleSize = { readonly voters: number; readonly observers: number } | undefined;

/** Checks how many of the listed servers can be used. */
export async function checkQuorum(
  members: readonly ServerFinding[],
  [first]: readonly UsableServer[],
): Promise<Check> {
  if (first?.srvr?.mode === 'standalone') return quorumOf(members, { voters: 1, observers: 0 });
  if (first?.session.kind !== 'zookeeper') return quorumOf(members, undefined);
  try {
    return quorumOf(members, sizeOf(await first.session.get('/zookeeper/config')));
  } catch (error) {
    if (isCode(error, 'NO_NODE')) return quorumOf(members, undefined);
    return quorumOf(members, undefined, failureOf(error));
  }
}

/** Counts the servers of the configuration of ZooKeeper, which is empty on a server that is alone. */
export function sizeOf(config: string): EnsembleSize {
  const servers = config.match(/^server\.\d+=.*/gm) ?? [];
  const observers = servers.filter((server) => /:observer\b/.test(server)).length;
  return servers.length > 0 ? { voters: servers.length - observers, observers } : undefined;
}

/** @param failure why the size is unknown */
export function quorumOf(
  members: readonly ServerFinding[],
  size: EnsembleSize,
  failure?: string,
): Check {
  const working = members.filter(({ session }) => session);
  const down = members.filter(({ session }) => !session).map(({ label }) => label);
  const check = { check: 'quorum', subject: 'quorum' } as const;
  const data = {
    usable: working.length,
    listed: members.length,
    voters: size?.voters ?? null,
    observers: size?.observers ?? null,
  };
  const listed = `${working.length} of ${count(members.length, 'server')} of the connect string can be used`;
  if (working.length === 0) {
    const advice = 'follow the advice above: without a majority, no lock is granted';
    return { ...check, status: 'unsafe', found: listed, advice, data };
  }
  const ensemble = size
    ? `the ensemble has ${count(size.voters, 'voter')}${size.observers > 0 ? ` and ${count(size.observers, 'observer')}` : ''}`
    : `only the listed servers are known${failure === undefined ? '' : ` (${failure})`}`;
  const voters = size && votersOf(working, size);
  const advice: string[] = [];
  if (down.length > 0) {
    advice.push(
      `repair ${down.join(', ')}, or remove what does not belong to the ensemble from the connect string: ${spareVoters(members.length, voters, size)}`,
    );
  }
  if (size && (voters ?? working.length) + down.length < size.voters) {
    advice.push(
      `name all ${size.voters} voters in the connect string, or a name that leads to all of them: clients cannot use the others when these fail`,
    );
  }
  const found = `${listed}; ${ensemble}`;
  if (advice.length === 0) return { ...check, status: 'ok', found, data };
  return { ...check, status: 'limit', found, advice: advice.join('; '), data };
}

/** Returns how many of the servers are voters; undefined if the mode of one is unknown. */
function votersOf(
  working: readonly ServerFinding[],
  { observers }: NonNullable<EnsembleSize>,
): number | undefined {
  if (observers === 0) return working.length;
  if (working.some(({ srvr }) => !srvr?.mode)) return undefined;
  return working.filter(({ srvr }) => srvr?.mode !== 'observer').length;
}

/**
 * Returns how many voters more may fail. The state of servers that are not listed is unknown, and if more servers are listed
 * than the ensemble has, several names lead to one server.
 */
function spareVoters(listed: number, working: number | undefined, size: EnsembleSize): string {
  const all = size ? size.voters + size.observers : 0;
  const isExact = listed === all || (listed < all && working === size?.voters);
  if (!size || working === undefined || !isExact) return 'how many more may fail is unknown';
  const spare = working - (Math.floor(size.voters / 2) + 1);
  return spare > 0
    ? `${count(spare, 'more voter')} may fail before no lock is granted`
    : 'if one more voter fails, no lock is granted';
}

/**
 * Checks that the servers are one ensemble: an ephemeral znode of the first one must be visible on all. Otherwise clients of
 * different servers would hold the same lock. Resolves to the servers that show it, too.
 */
export async function checkSameEnsemble(
  servers: readonly UsableServer[],
  znode: string,
): Promise<{ check: Check | undefined; same: UsableServer[] }> {
  const same: UsableServer[] = [];
  const serversWithoutZnode: string[] = [];
  for (const server of servers) {
    await server.session.sync('/');
    if (await server.session.exists(znode)) same.push(server);
    else serversWithoutZnode.push(server.label);
  }
  if (servers.length < 2) return { check: undefined, same };
  const about = { check: 'quorum', subject: 'ensemble' } as const;
  const check: Check =
    serversWithoutZnode.length === 0
      ? { ...about, status: 'ok', found: 'all servers show the same znodes' }
      : {
          ...about,
          status: 'unsafe',
          found: `${serversWithoutZnode.join(', ')}: the znodes of ${servers[0]!.label} are missing, so two clients can hold one lock`,
          advice: 'name the servers of one ensemble only',
        };
  return { check, same };
}
