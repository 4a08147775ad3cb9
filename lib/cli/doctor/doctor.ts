import { CoordinationError } from '../../client/index.js';
import type { NormalizedOptions } from '../../client/options.js';
import { chooseTransport } from '../../client/transport/choose-transport.js';
import { checkClocks } from './clock.js';
import { checkOperations, tryContainer } from './operations.js';
import { failureOf, type Target } from './probe-session.js';
import { checkQuorum, checkSameEnsemble } from './quorum.js';
import { checkRecipes, sameForAllRecipes } from './recipes.js';
import { type Check, type Report, reportOf, RUN_AGAIN } from './report.js';
import { checkRights, makeWorkplace, removeWorkplace, workplaceIn } from './rights.js';
import { checkServers, findServers, membersOf, type UsableServer } from './servers.js';
import { checkTokens } from './tokens.js';

/** Probes the servers, and deletes its znodes, also if the signal aborts. Then it rejects with the signal's reason. */
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
    if (!(error instanceof CoordinationError)) throw error;
    checks.push(...unfinished(failureOf(error)));
  } finally {
    await Promise.all(usable.map(({ session }) => session.close()));
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
  const { check: rights, parent } = await checkRights(session, `${chroot}${namespace}`);
  if (parent === undefined) {
    const status = rights.status === 'unsafe' ? 'unavailable' : 'unknown';
    checks.push(...(await checkClocks(usable, undefined, tls, target.signal)), rights);
    checks.push(...sameForAllRecipes(status, rights.found, rights.advice!));
    return;
  }
  const directory = workplaceIn(parent);
  try {
    const containers =
      kind === 'zookeeper' ? await tryContainer(target, first, directory) : undefined;
    const isContainer = containers?.data?.supported === 'yes';
    const workplace = await makeWorkplace(session, directory, isContainer);
    const ensemble = await checkSameEnsemble(usable, workplace.keeper);
    if (ensemble) checks.push(ensemble);
    const clocks = await checkClocks(usable, workplace, tls, target.signal);
    checks.push(...clocks, rights);
    if (ensemble?.status === 'unsafe') {
      const found = 'the servers are not one ensemble';
      checks.push(...sameForAllRecipes('unsafe', found, ensemble.advice!));
      return;
    }
    const stats = await checkTokens(workplace, usable, target);
    checks.push(...stats.checks);
    const tried = await checkOperations(workplace, usable, target, containers);
    checks.push(...tried.checks);
    const isSkewed = clocks.some(({ status }) => status === 'limit');
    const facts = { kind, tokens: stats.facts, operations: tried.facts, isSkewed };
    checks.push(...checkRecipes(facts));
  } finally {
    const { signal } = new AbortController();
    const isRemoved = await removeWorkplace({ ...target, signal }, usable, directory);
    if (!isRemoved) checks.push(leftover(directory));
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

function leftover(directory: string): Check {
  return {
    check: 'probe',
    subject: 'probes',
    status: 'unsafe',
    found: `${directory} was not deleted`,
    advice: 'delete it with its children when a server can be used',
  };
}
