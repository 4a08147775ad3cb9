import { randomUUID } from 'node:crypto';
import {
  CoordinationError,
  isCode,
  type NormalizedOptions,
  normalizeOptions,
  NotAuthorizedError,
  parentOf,
  type ServerKind,
  type ZkClient,
  type ZkClientOptions,
} from '../../client/index.js';
import { withClient } from '../connection.js';
import { Failure } from '../exit.js';
import { checkRecipes } from './recipes.js';
import {
  type Check,
  type CheckName,
  probeServers,
  type Server,
  type Status,
  type UsableServer,
} from './servers.js';

/** Milliseconds. */
const MAX_SKEW = 1000;
/**
 * A session timeout is safe if it is at least so many times the shortest timeout of a server, which is two ticks by default:
 * docs/operations/zookeeper.md says why.
 */
const SAFE_TIMEOUTS = 4;
/** The names of the znodes that this command creates in an existing one begin with it. */
const PREFIX = 'nestjs-zookeeper-doctor-';
/** A probe of the rights vanishes at the latest with its session. */
const EPHEMERAL = { mode: 'ephemeral' } as const;

/**
 * Checks an ensemble, and deletes the znodes that it has created, also if the signal aborts.
 *
 * @param signal aborts with a Failure, which is thrown after the clean-up, with the directory if it was not deleted
 */
export async function examine(
  options: ZkClientOptions,
  signal: AbortSignal,
): Promise<readonly Check[]> {
  const examination = new Examination(options, signal);
  let leftover: string | undefined;
  try {
    await examination.run();
  } catch (error) {
    if (!signal.aborted) {
      examination.add('incomplete', 'unsafe', `the checks ended early: ${messageOf(error)}`);
    }
  } finally {
    leftover = await examination.cleanUp();
  }
  if (signal.aborted) {
    const { message, exitCode } = signal.reason as Failure;
    throw new Failure(leftover ? `${message}; ${leftover}` : message, exitCode);
  }
  if (leftover) examination.add('cleanup', 'limit', leftover);
  return examination.checks;
}

class Examination {
  readonly checks: Check[] = [];
  private readonly normalized: NormalizedOptions;
  private readonly options: ZkClientOptions;
  /** The znode below which the recipes are tried. */
  private directory: string | undefined;
  /** The servers that have the directory. On another ensemble, it would look as if it were deleted. */
  private holders: readonly UsableServer[] = [];

  constructor(
    options: ZkClientOptions,
    private readonly signal: AbortSignal,
  ) {
    this.normalized = normalizeOptions(options);
    const connectString = this.normalized.hosts.map(({ label }) => label).join(',');
    // The paths of the checks are absolute, because the chroot may not exist.
    this.options = { ...options, connectString, namespace: undefined };
  }

  add(check: CheckName, status: Status, message: string, subject: string = check): void {
    this.checks.push({ check, subject, status, message });
  }

  /** @throws CoordinationError, or the signal's reason */
  async run(): Promise<void> {
    const { options, signal } = this;
    const servers = await probeServers(this.normalized, options, signal);
    this.checks.push(...servers.map(({ check }) => check));
    this.add('quorum', ...verdictOnQuorum(servers));
    const usable = servers.filter((server): server is UsableServer => server.session !== undefined);
    const [first] = usable;
    if (!first) return;
    const { kind } = first.session;
    this.add('kind', ...KINDS[kind], kind);
    this.add('timeout', ...verdictOnTimeout(usable, this.normalized.sessionTimeout));
    await withClient(first.options, signal, (client) => this.prepare(client, first));
    const { directory } = this;
    if (directory === undefined || !(await this.isOneEnsemble(usable, directory))) return;
    const tried = withClient(options, signal, (client) => checkRecipes(client, directory, signal));
    this.checks.push(...(await tried));
  }

  /** Checks the rights, and creates the directory if they suffice. */
  private async prepare(client: ZkClient, server: UsableServer): Promise<void> {
    const namespace = this.normalized.chroot + this.normalized.namespace || '/';
    let parent = namespace;
    while (!(await client.exists(parent))) parent = parentOf(parent);
    const probe = `${parent === '/' ? '' : parent}/${PREFIX}${randomUUID()}`;
    const missing = await missingRights(client, parent, probe);
    if (missing.length > 0) {
      // Recipes create directories there, and need no more.
      const status = missing.includes('create') ? 'unsafe' : 'limit';
      const message = `the ACL of ${parent} denies the right to ${missing.join(' and to ')}: grant it, or pass credentials that have it with ZOOKEEPER_AUTH`;
      this.add('rights', status, message, namespace);
    } else if (await this.othersMayCreate(server, `${probe}-other`)) {
      const message = `clients without the credentials may create in ${parent} too: create ${namespace} with an ACL that admits only the credentials, or set this ACL if it exists`;
      this.add('rights', 'limit', message, namespace);
    } else this.add('rights', 'ok', `may read, create and delete in ${parent}`, namespace);
    if (missing.includes('create') || missing.includes('delete')) return;

    const before = Date.now();
    this.directory = probe;
    this.holders = [server];
    await client.ensureContainers(probe);
    const { ctime } = (await client.exists(probe))!;
    this.add('clock', ...verdictOnClock(ctime, before, Date.now()));
  }

  /** Resolves to whether credentials are used, and clients without them may create as well. */
  private async othersMayCreate({ options }: UsableServer, probe: string): Promise<boolean> {
    if (!options.auth) return false;
    const stranger = { ...options, auth: undefined, acl: undefined };
    return isAllowed(() =>
      withClient(stranger, this.signal, (client) => client.create(probe, '', EPHEMERAL)),
    );
  }

  /** Checks that the directory exists on each server. Otherwise clients of different servers would hold the same lock. */
  private async isOneEnsemble(
    usable: readonly UsableServer[],
    directory: string,
  ): Promise<boolean> {
    const shows = usable.map(({ options }) =>
      withClient(options, this.signal, async (client) => {
        await client.sync('/');
        return (await client.exists(directory)) !== undefined;
      }),
    );
    const shown = await Promise.all(shows);
    this.holders = usable.filter((_, index) => shown[index]);
    const others = usable.filter((_, index) => !shown[index]).map(({ check }) => check.subject);
    if (others.length > 0) {
      const message = `two clients can hold one lock, because ${others.join(', ')} and the other servers have different znodes: name the servers of one ensemble only`;
      this.add('ensemble', 'unsafe', message);
    } else if (usable.length > 1) this.add('ensemble', 'ok', 'all servers have the same znodes');
    return others.length === 0;
  }

  /** Deletes the directory. Resolves to a message if that fails. */
  async cleanUp(): Promise<string | undefined> {
    const { directory, holders } = this;
    if (directory === undefined) return undefined;
    const failures: string[] = [];
    for (const { options } of holders) {
      try {
        await withClient(options, new AbortController().signal, async (client) => {
          await client.sync('/');
          await deleteTree(client, directory);
        });
        return undefined;
      } catch (error) {
        failures.push(messageOf(error));
      }
    }
    return `${directory} was not deleted (${failures.join('; ')}): delete it when a server can be used`;
  }
}

type Verdict = readonly [status: Status, message: string];

const KINDS: Readonly<Record<ServerKind, Verdict>> = {
  zookeeper: ['ok', 'is supported'],
  'clickhouse-keeper': [
    'limit',
    'a lost connection ends the session and its leases, and their locks stay blocked until the session times out; empty directories remain; a cold grant takes one more round trip',
  ],
  unknown: ['limit', 'is not tested, and used like ClickHouse Keeper'],
  // The client does not connect to it.
  raftkeeper: ['unsafe', 'is refused'],
};

/** Counts the servers, and those of ZooKeeper's configuration. */
export function verdictOnQuorum(servers: readonly Server[]): Verdict {
  const usable = servers.filter(({ session }) => session);
  const config = usable.find(({ session }) => session?.config)?.session?.config ?? '';
  const voters = config.match(/^server\.\d+=(?!.*:observer\b)/gm)?.length ?? 0;
  const messages = [`${usable.length} of ${servers.length} listed servers can be used`];
  if (usable.length === 0) return ['unsafe', messages[0]!];
  if (usable.some(isStandalone)) {
    messages.push('a single server: no lock is granted while it is down; run three servers');
    return ['limit', messages.join('; ')];
  }
  if (voters > 0) {
    const majority = Math.floor(voters / 2) + 1;
    messages.push(`${majority} of the ${voters} voters of the ensemble must run`);
  }
  if (usable.length < servers.length)
    messages.push('repair the others, or remove them from --zookeeper');
  if (servers.length < voters) {
    messages.push('name all voters in --zookeeper: clients cannot use the others when these fail');
  }
  const isComplete = usable.length === servers.length && servers.length >= voters;
  return [isComplete ? 'ok' : 'limit', messages.join('; ')];
}

/** The role is known only if the server answers `srvr`. */
function isStandalone({ role, session }: Server): boolean {
  if (role !== undefined) return role === 'standalone';
  return session?.kind === 'zookeeper' && session.config === '';
}

/** Compares the granted session timeout with the requested one, and with the ticks of the servers of an ensemble. */
export function verdictOnTimeout(servers: readonly UsableServer[], requested: number): Verdict {
  const timeout = Math.min(...servers.map(({ session }) => session.timeout));
  const shortest = servers.map(({ session, role }) =>
    session.kind === 'zookeeper' && role !== 'standalone' ? session.shortestTimeout : 0,
  );
  const safe = SAFE_TIMEOUTS * Math.max(...shortest);
  if (timeout < safe) {
    const message = `${timeout / 1000} s are short: a partition of the servers may let a lease outlive its session for a moment; request ${safe / 1000} s, which are eight ticks, or lower tickTime`;
    return ['limit', message];
  }
  if (timeout === requested) return ['ok', `sessions time out after ${timeout / 1000} s`];
  const verb = timeout < requested ? 'lower' : 'raise';
  const message = `the servers ${verb} the session timeout of ${requested / 1000} s: request ${timeout / 1000} s, or change the limits of the servers`;
  return ['limit', message];
}

/** @param ctime the creation time of a znode that was created between the other two times */
function verdictOnClock(ctime: number, before: number, after: number): Verdict {
  const skew = ctime < before ? before - ctime : Math.max(0, ctime - after);
  if (skew <= MAX_SKEW) return ['ok', 'the clocks of the server and of this machine agree'];
  const direction = ctime < before ? 'behind' : 'ahead of';
  const message = `the server is ${Math.round(skew / 1000)} s ${direction} this machine: synchronize both with NTP; TTLs and the times in logs depend on it, locks do not`;
  return ['limit', message];
}

/** Returns the rights in a znode that the client lacks. */
async function missingRights(client: ZkClient, parent: string, probe: string): Promise<string[]> {
  const missing: string[] = [];
  if (!(await isAllowed(() => client.children(parent)))) missing.push('read');
  if (!(await isAllowed(() => client.create(probe, '', EPHEMERAL)))) {
    missing.push('create');
  } else if (!(await isAllowed(() => client.delete(probe)))) missing.push('delete');
  return missing;
}

/** Resolves to false if the server refuses a request because of the rights. */
async function isAllowed(request: () => Promise<unknown>): Promise<boolean> {
  try {
    await request();
    return true;
  } catch (error) {
    if (error instanceof NotAuthorizedError) return false;
    throw error;
  }
}

async function deleteTree(client: ZkClient, path: string): Promise<void> {
  try {
    const { children } = await client.children(path);
    await Promise.all(children.map((child) => deleteTree(client, `${path}/${child}`)));
    await client.delete(path);
  } catch (error) {
    // The server deletes empty containers, too.
    if (!isCode(error, 'NO_NODE')) throw error;
  }
}

/** @throws what the servers did not cause */
function messageOf(error: unknown): string {
  if (!(error instanceof CoordinationError)) throw error;
  return error.message;
}
