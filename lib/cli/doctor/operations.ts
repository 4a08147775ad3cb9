import { ConnectionError, type ServerKind, SessionExpiredError } from '../../client/index.js';
import { failureOf, FLAGS, isCode, ProbeSession, type Target } from './probe-session.js';
import type { ProbeDirectory } from './rights.js';
import { type Check, RUN_AGAIN, type Status } from './report.js';
import type { UsableServer } from './servers.js';

/** Milliseconds: the server deletes the TTL znode of a killed probe. */
const TTL = 60_000;

/**
 * Whether the client can use an operation: `broken` if the server applies a part of it, or closes the connection or does not
 * reply instead of refusing it.
 */
export type Support = 'yes' | 'no' | 'broken' | 'unknown';

/** What the servers support. */
export interface OperationFacts {
  readonly containers: Support;
  readonly ttl: Support;
  readonly addWatch: Support;
  readonly removeWatch: Support;
  readonly multi: Support;
  /** Whether a client that reconnects gets its session back. */
  readonly resumes: Support;
}

interface Probe {
  readonly subject: string;
  readonly found: string;
  /** What it means that the server lacks the operation. */
  readonly advice: string;
  /** The status of an operation that the client cannot use. Default: `limit`. */
  readonly missing?: Status;
  /** The status of an operation that is `broken`. Default: that of a missing one. */
  readonly broken?: Status;
  /**
   * May run twice. Resolves to a text if the operation has a wrong effect.
   *
   * @throws CoordinationError if the server lacks the operation
   */
  run(session: ProbeSession, directory: string): Promise<string | void>;
}

const CONTAINERS_ADVICE =
  'recipes create persistent directories instead: delete empty directories while no application uses locks';

const PROBES = {
  containers: {
    subject: 'containers',
    found: 'the server has containers',
    advice: CONTAINERS_ADVICE,
    run: (session, directory) => session.ensure(`${directory}/container`, FLAGS.container),
  },
  ttl: {
    subject: 'TTL znodes',
    found: 'the server has znodes with a TTL',
    missing: 'unavailable',
    advice:
      'PersistentTtlNode needs Apache ZooKeeper with zookeeper.extendedTypesEnabled=true on each server',
    run: (session, directory) => session.ensure(`${directory}/ttl`, FLAGS.ttl, TTL),
  },
  removeWatch: {
    subject: 'removal of watches',
    found: 'the server removes watches',
    advice: 'a watch that is not used any more remains until it fires or the session ends',
    async run(session, directory) {
      await session.exists(`${directory}/missing`, true);
      await session.removeWatch(`${directory}/missing`);
    },
  },
  addWatch: {
    subject: 'persistent watches',
    found: 'the server has persistent and recursive watches',
    advice: 'the cache uses one watch for each znode, and client.addWatch rejects',
    run: (session, directory) => session.addWatch(directory),
  },
  multi: {
    subject: 'transactions',
    found: 'all operations of a transaction are applied, or none',
    missing: 'unavailable',
    broken: 'unsafe',
    advice: 'do not use transactions there, nor DistributedAtomicLong',
    run: runMulti,
  },
} as const satisfies Partial<Record<keyof OperationFacts, Probe>>;

/** The client never sends these to RaftKeeper, which does not reply to unknown requests. */
const NOT_FOR_RAFTKEEPER: readonly string[] = ['containers', 'ttl', 'removeWatch', 'addWatch'];

/**
 * Runs each probe in a session of its own, because a server may answer by closing the connection.
 *
 * @param containers the result of the creation of the directory as a container, if it was tried
 */
export async function checkOperations(
  { directory }: ProbeDirectory,
  servers: readonly UsableServer[],
  target: Target,
  containers: Check | undefined,
): Promise<{ checks: Check[]; facts: OperationFacts }> {
  const [{ address, session }] = servers as [UsableServer];
  const { kind } = session;
  const checks: Check[] = [];
  const facts: Partial<Record<keyof OperationFacts, Support>> = {};
  for (const [name, probe] of Object.entries(PROBES)) {
    let check: Check;
    if (name === 'containers' && containers) check = containers;
    else if (kind === 'raftkeeper' && NOT_FOR_RAFTKEEPER.includes(name)) {
      const found = 'not tried: RaftKeeper does not reply to it, and the client does not use it';
      check = resultOf(probe, 'no', found);
    } else check = await tryProbe(probe, kind, () => ProbeSession.open(target, address), directory);
    checks.push(check);
    facts[name as keyof OperationFacts] = check.data!.supported as Support;
  }
  const resume = await checkResume(servers, target);
  checks.push(resume);
  return { checks, facts: { ...facts, resumes: resume.data!.supported } as OperationFacts };
}

/** Tries whether a directory can be created as a container. */
export function tryContainer(
  target: Target,
  { address }: UsableServer,
  create: (session: ProbeSession) => Promise<void>,
): Promise<Check> {
  const probe = { ...PROBES.containers, run: create };
  return tryProbe(probe, 'zookeeper', () => ProbeSession.open(target, address), '');
}

async function tryProbe(
  probe: Probe,
  kind: ServerKind,
  open: () => Promise<ProbeSession>,
  directory: string,
  isSecondTry = false,
): Promise<Check> {
  const session = await open();
  try {
    const wrong = await probe.run(session, directory);
    if (wrong !== undefined) return resultOf(probe, 'broken', wrong);
    // The client asks only ZooKeeper for these.
    const isUsed = kind === 'zookeeper' || probe === PROBES.multi;
    return isUsed
      ? resultOf(probe, 'yes', probe.found)
      : resultOf(probe, 'no', `${probe.found}, but the client uses them on ZooKeeper only`);
  } catch (error) {
    const found = failureOf(error);
    if (isCode(error, 'UNIMPLEMENTED')) return resultOf(probe, 'no', found);
    if (!(error instanceof ConnectionError)) return resultOf(probe, 'unknown', found);
    if (isSecondTry) return resultOf(probe, 'broken', found);
  } finally {
    await session.close();
  }
  // The loss of one connection proves nothing.
  return tryProbe(probe, kind, open, directory, true);
}

function resultOf(
  { subject, advice, missing = 'limit', broken = missing }: Probe,
  supported: Support,
  found: string,
): Check {
  const check = { check: 'operation', subject, found, data: { supported } } as const;
  if (supported === 'yes') return { ...check, status: 'ok' };
  if (supported === 'unknown') return { ...check, status: 'unknown', advice: RUN_AGAIN };
  return { ...check, status: supported === 'no' ? missing : broken, advice };
}

/** Only creates, sets, deletes and checks: anything else in a multi can end a RaftKeeper. */
async function runMulti(session: ProbeSession, directory: string): Promise<string | void> {
  const path = `${directory}/multi`;
  const data = Buffer.alloc(0);
  const create = { kind: 'create', path, data, flags: FLAGS.ephemeral, ttl: undefined } as const;
  const outcome = await session.multi([
    create,
    { kind: 'set', path, data, version: 0 },
    { kind: 'check', path, version: 1 },
    { kind: 'delete', path, version: 1 },
  ]);
  if ('failed' in outcome) return `operation ${outcome.failed} of a transaction failed`;
  const refused = await session.multi([create, { kind: 'check', path: directory, version: 999 }]);
  if (!('failed' in refused)) return 'a transaction with a wrong version succeeded';
  if (await session.exists(path)) return 'a part of a failed transaction was applied';
}

/** Loses the connection of a session, and reconnects to another server, if there is one. */
async function checkResume(servers: readonly UsableServer[], target: Target): Promise<Check> {
  const [first, second = first] = servers as [UsableServer, UsableServer?];
  const check = { check: 'session', subject: 'session resume' } as const;
  const lost = await ProbeSession.open(target, first.address);
  const { credentials } = lost;
  lost.drop();
  try {
    const resumed = await ProbeSession.open(target, second.address, credentials);
    await resumed.exists('/').finally(() => resumed.close());
    const found = 'a session survives the loss of its connection';
    return { ...check, status: 'ok', found, data: { supported: 'yes' } };
  } catch (error) {
    const found = failureOf(error);
    if (!(error instanceof SessionExpiredError)) {
      const data = { supported: 'unknown' };
      return { ...check, status: 'unknown', found, advice: RUN_AGAIN, data };
    }
    return {
      ...check,
      status: 'limit',
      found: 'a session ends with its connection',
      advice:
        'a lost connection ends all leases of the client; their locks stay blocked until the session times out: request a short sessionTimeout',
      data: { supported: 'no' },
    };
  }
}
