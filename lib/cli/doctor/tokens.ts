import type { Stat } from '../../client/index.js';
import { FLAGS, ProbeSession, type Target } from './probe-session.js';
import type { ProbeDirectory } from './rights.js';
import { type Check, RUN_AGAIN } from './report.js';
import { eventually, type UsableServer } from './servers.js';

/** The number of writes on each server. */
const ROUNDS = 3;
/** Milliseconds for the end of a closed session. */
const END_LIMIT = 5000;

/** What fencing tokens are made of. */
export interface TokenFacts {
  /**
   * Whether the deletion of a child, by a client and by the end of a session, raises the `pzxid` of its parent; undefined if
   * the session did not end in time.
   */
  readonly pzxidRises: boolean | undefined;
  /** Whether the transaction ids of writes rise, on whichever server. */
  readonly zxidsRise: boolean;
}

/** Checks the stats that fencing tokens come from. */
export async function checkTokens(
  probeDirectory: ProbeDirectory,
  servers: readonly UsableServer[],
  target: Target,
): Promise<{ checks: Check[]; facts: TokenFacts }> {
  const { session, directory } = probeDirectory;
  const statOf = async (): Promise<Stat> => (await session.exists(directory))!;
  const child = `${directory}/child`;

  await session.create(child, FLAGS.ephemeral);
  const created = await statOf();
  await session.set(child);
  const changed = await statOf();
  await session.delete(child);
  const deleted = await statOf();

  const other = await ProbeSession.open(target, servers.at(-1)!.address);
  let before: Stat;
  try {
    await other.create(child, FLAGS.ephemeral);
    await session.sync('/');
    before = await statOf();
  } finally {
    await other.close();
  }
  const hasEnded = async () => {
    await session.sync('/');
    return !(await session.exists(child));
  };
  const ended = await eventually(hasEnded, END_LIMIT, target.signal);
  const after = await statOf();

  const zxids = await writtenZxids(probeDirectory, servers);
  const byClient = deleted.pzxid > created.pzxid;
  const bySession = ended && after.pzxid > before.pzxid;
  const isRaftKeeper = session.kind === 'raftkeeper';
  const facts = {
    pzxidRises: byClient ? (ended ? bySession : undefined) : false,
    zxidsRise:
      !isRaftKeeper && zxids.every((zxid, index) => index === 0 || zxid > zxids[index - 1]!),
  };
  const cversion = changed.cversion === created.cversion && deleted.cversion > changed.cversion;
  return {
    checks: checksOf(facts, { byClient, bySession, cversion, isRaftKeeper }, session),
    facts,
  };
}

/** Writes on each server in turn. Resolves to the transaction ids. */
async function writtenZxids(
  { ephemeralChild }: ProbeDirectory,
  servers: readonly UsableServer[],
): Promise<number[]> {
  const zxids: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const { session } of servers) zxids.push((await session.set(ephemeralChild)).mzxid);
  }
  return zxids;
}

interface Seen {
  readonly byClient: boolean;
  readonly bySession: boolean;
  readonly cversion: boolean;
  readonly isRaftKeeper: boolean;
}

export function checksOf(
  facts: TokenFacts,
  seen: Seen,
  { kind }: Pick<ProbeSession, 'kind'>,
): Check[] {
  const { byClient, bySession, cversion, isRaftKeeper } = seen;
  const check = 'tokens' as const;
  const pzxid = { check, subject: 'pzxid', data: { onDelete: byClient, onSessionEnd: bySession } };
  const zxids = { check, subject: 'zxid', data: { rises: facts.zxidsRise } };
  return [
    facts.pzxidRises === undefined
      ? {
          ...pzxid,
          status: 'unknown',
          found: `a closed session did not end within ${END_LIMIT / 1000} s`,
          advice: RUN_AGAIN,
        }
      : facts.pzxidRises
        ? {
            ...pzxid,
            status: 'ok',
            found: 'rises when a child is deleted and when its session ends',
          }
        : {
            ...pzxid,
            // Only for ZooKeeper the client takes the tokens from it.
            status: kind === 'zookeeper' ? 'unsafe' : 'limit',
            found: `does not rise when ${[!byClient && 'a child is deleted', !bySession && 'the session of a child ends'].filter(Boolean).join(', or ')}`,
            advice:
              kind === 'zookeeper'
                ? 'do not use locks there: fencing tokens may repeat. This is not how ZooKeeper behaves'
                : isRaftKeeper
                  ? 'see zxid'
                  : 'nothing to change: the client takes each fencing token from a write, which costs one more round trip for each cold grant',
          },
    facts.zxidsRise
      ? { ...zxids, status: 'ok', found: 'the transaction ids of writes rise' }
      : {
          ...zxids,
          status: 'unsafe',
          found: isRaftKeeper
            ? 'each server counts its transactions for itself, so the ids may fall'
            : 'a later write had no higher transaction id',
          advice: 'use Apache ZooKeeper or ClickHouse Keeper if a resource checks fencing tokens',
        },
    cversion
      ? {
          check,
          subject: 'cversion',
          status: 'ok',
          found: 'counts the changes of the children only',
        }
      : {
          check,
          subject: 'cversion',
          status: 'limit',
          found: 'does not count the changes of the children only',
          advice: 'do not use the cversion in your own code; the recipes do not use it',
        },
  ];
}
