import type { NormalizedOptions } from '../../client/options.js';
import { chooseTransport } from '../../client/transport/choose-transport.js';
import { Failure } from '../exit-codes.js';
import { checkClocks, serversDiffer } from './clock.js';
import { checkOperations, tryContainer } from './operations.js';
import { failureOf, FLAGS, type ProbeSession, type Target } from './probe-session.js';
import { checkQuorum, checkSameEnsemble } from './quorum.js';
import { checkRecipes, sameForAllRecipes } from './recipes.js';
import { type Check, type Report, reportOf, RUN_AGAIN } from './report.js';
import { checkRights, deleteDirectory, newDirectoryIn, prepareDirectory } from './rights.js';
import { checkServers, findServers, membersOf, type UsableServer } from './servers.js';
import { checkTokens } from './tokens.js';

/**
 * Probes the servers, and deletes its znodes, also if the signal aborts.
 *
 * @param signal aborts with a Failure, which is thrown after the clean-up, with the directory if it was not deleted
 */
export async function examine(options: NormalizedOptions, signal: AbortSignal): Promise<Report> {
  const { hosts, chroot, tls, sasl, sessionTimeout, authInfo, namespace } = options;
  const { connect } = await chooseTransport('wire', tls, sasl);
  const target: Target = { connect, sessionTimeout, authInfo, signal };
  const servers = await findServers(hosts, target, tls);
  const usable = servers.filter((server): server is UsableServer => server.session !== undefined);
  const checks: Check[] = [];
  try {
    signal.throwIfAborted();
    const members = membersOf(servers);
    checks.push(...checkServers(servers, members, sessionTimeout));
    const quorum = await checkQuorum(members, usable);
    checks.push(quorum);
    if (usable.length === 0) {
      const advice = quorum.advice ?? '';
      checks.push(...sameForAllRecipes('unavailable', 'no server can be used', advice));
    } else {
      await probe(usable, options, target, checks);
    }
  } catch (error) {
    if (!signal.aborted) checks.push(...unfinished(failureOf(error)));
    else if (error !== signal.reason) failureOf(error);
  } finally {
    await Promise.all(usable.map(({ session }) => session.close()));
  }
  if (signal.aborted) {
    const { message, exitCode } = signal.reason as Failure;
    const left = checks.filter(({ subject }) => subject === LEFTOVER);
    const lines = left.map(({ found, advice }) => `; ${found}: ${advice}`);
    throw new Failure(message + lines.join(''), exitCode);
  }
  const zookeeper = hosts.map(({ label }) => label).join(',') + chroot;
  return reportOf({ zookeeper, namespace, server: usable[0]?.session.kind ?? null }, checks);
}

/** Adds the checks that need a znode. */
async function probe(
  usable: readonly UsableServer[],
  { tls, chroot, namespace }: NormalizedOptions,
  target: Target,
  checks: Check[],
): Promise<void> {
  const [first] = usable as [UsableServer];
  const { session } = first;
  const { kind } = session;
  const { check: rights, parent } = await checkRights(target, session, `${chroot}${namespace}`);
  if (parent === undefined) {
    const status = rights.status === 'unsafe' ? 'unavailable' : 'unknown';
    checks.push(...(await checkClocks(usable, undefined, tls, target.signal)), rights);
    checks.push(...sameForAllRecipes(status, rights.found, rights.advice!));
    return;
  }
  const directory = newDirectoryIn(parent);
  /** The servers that show the znodes of the first one. */
  let sameEnsemble = [first];
  /** Whether a request to create the directory was sent. */
  let mayExist = false;
  const create = (by: ProbeSession, flags: number) => {
    mayExist = true;
    return by.ensure(directory, flags);
  };
  try {
    const containers =
      kind === 'zookeeper'
        ? await tryContainer(target, first, (by) => create(by, FLAGS.container))
        : undefined;
    const isContainer = containers?.data?.supported === 'yes';
    if (!isContainer) await create(session, FLAGS.persistent);
    const probeDirectory = await prepareDirectory(session, directory);
    const { check: ensemble, same } = await checkSameEnsemble(
      usable,
      probeDirectory.ephemeralChild,
    );
    sameEnsemble = same;
    if (ensemble) checks.push(ensemble);
    const clocks = await checkClocks(usable, probeDirectory, tls, target.signal);
    checks.push(...clocks, rights);
    if (ensemble?.status === 'unsafe') {
      const found = 'the servers are not one ensemble';
      checks.push(...sameForAllRecipes('unsafe', found, ensemble.advice!));
      return;
    }
    const stats = await checkTokens(probeDirectory, usable, target);
    checks.push(...stats.checks);
    const tried = await checkOperations(probeDirectory, usable, target, containers);
    checks.push(...tried.checks);
    const isSkewed = serversDiffer(clocks);
    const facts = { kind, tokens: stats.facts, operations: tried.facts, isSkewed };
    checks.push(...checkRecipes(facts));
  } finally {
    const { signal } = new AbortController();
    const failure =
      mayExist && (await deleteDirectory({ ...target, signal }, sameEnsemble, directory));
    if (failure) checks.push(leftover(directory, failure));
  }
}

/** The checks that are missing because a server has failed meanwhile. */
function unfinished(failure: string): Check[] {
  const found = `the probes ended early: ${failure}`;
  const check = {
    check: 'probe',
    subject: 'probes',
    status: 'unknown',
    found,
    advice: RUN_AGAIN,
  } as const;
  return [check, ...sameForAllRecipes('unknown', found, RUN_AGAIN)];
}

const LEFTOVER = 'directory';

function leftover(directory: string, failure: string): Check {
  return {
    check: 'probe',
    subject: LEFTOVER,
    status: 'limit',
    found: `${directory} was not deleted (${failure})`,
    advice: 'delete it with its children when a server can be used',
  };
}
