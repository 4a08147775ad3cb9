import { setTimeout as pause } from 'node:timers/promises';
import { NotAuthorizedError } from '../../client/index.js';
import { type Host, resolveHost } from '../../client/hosts.js';
import type { TlsOptions } from '../../client/transport/tls.js';
import type { Address } from '../../client/transport/transport.js';
import { fourLetterWord, readSrvr, type SrvrAnswer } from './four-letter-word.js';
import { failureOf, ProbeSession, type Target } from './probe-session.js';
import { type Check, showMilliseconds } from './report.js';

/** The number of reads, and of syncs, of which the median is the latency. */
const ROUNDS = 5;
/** Milliseconds. A median above it is a limit, because each grant waits for it at least once. */
const SLOW = 500;
/**
 * A session timeout is safe if it is at least so many times the shortest timeout of a server, which is two ticks by default:
 * docs/operations/zookeeper.md says why.
 */
const SAFE_TIMEOUTS = 4;
/** The first version with persistent watches. */
const OLDEST_VERSION = [3, 6] as const;

/** What was found out about one address of a server. */
export interface ServerFinding {
  readonly host: Host;
  /** Absent if the name does not resolve. */
  readonly address?: Address;
  /** `host:port`, with the IP address if it differs. */
  readonly label: string;
  readonly srvr?: SrvrAnswer | undefined;
  /** Why the server gave no answer to `srvr`, or another one than a statistic. */
  readonly srvrFailure?: string;
  /** Absent if the server cannot be used. */
  readonly session?: ProbeSession;
  readonly failure?: string;
  readonly advice?: string;
  /** Milliseconds. */
  readonly latency?: { readonly read: number; readonly sync: number };
  /** The shortest session timeout that a server of an ensemble grants, milliseconds: two ticks by default. */
  readonly shortestTimeout?: number | undefined;
  /** By the clock of this machine, before and after the connection was made. */
  readonly connected?: readonly [before: number, after: number];
}

/** A server with a session. */
export type UsableServer = ServerFinding & Required<Pick<ServerFinding, 'session' | 'address'>>;

/** Tries all addresses of all hosts together. The caller closes the sessions. */
export async function findServers(
  hosts: readonly Host[],
  target: Target,
  tls: TlsOptions | undefined,
): Promise<ServerFinding[]> {
  const found = hosts.map(async (host) => {
    let addresses: Address[];
    try {
      addresses = await resolveHost(host);
    } catch (error) {
      const advice = 'correct the name in --zookeeper, or the name service';
      return [{ host, label: host.label, failure: reasonOf(error, host), advice }];
    }
    addresses.sort((a, b) => (a.ip < b.ip ? -1 : 1));
    return Promise.all(addresses.map((address) => findServer(host, address, target, tls)));
  });
  return (await Promise.all(found)).flat();
}

async function findServer(
  host: Host,
  address: Address,
  target: Target,
  tls: TlsOptions | undefined,
): Promise<ServerFinding> {
  const label = address.ip === host.host ? host.label : `${host.label} (${address.ip})`;
  const answer = await fourLetterWord(address, 'srvr', tls, target.signal);
  const srvr = readSrvr(answer);
  const known = { host, address, label, srvr, srvrFailure: srvrFailureOf(answer) };
  let session: ProbeSession | undefined;
  try {
    const before = Date.now();
    session = await ProbeSession.open(target, address);
    const connected = [before, Date.now()] as const;
    // Also proves that the server accepts requests of clients that have no SASL.
    const latency = await measureLatency(session);
    const inEnsemble = session.kind === 'zookeeper' && srvr?.mode !== 'standalone';
    const shortestTimeout = inEnsemble ? await shortestTimeoutOf(target, address) : undefined;
    return { ...known, session, connected, latency, shortestTimeout };
  } catch (error) {
    await session?.close();
    if (target.signal.aborted) return { ...known, failure: 'interrupted' };
    return { ...known, failure: reasonOf(error, host), advice: adviceFor(error, answer) };
  }
}

/** Returns the message without the address, which is the subject of the line. */
function reasonOf(error: unknown, { label }: Host): string {
  const message = failureOf(error);
  return message.startsWith(label) ? message.slice(label.length).replace(/^:? /, '') : message;
}

function srvrFailureOf(answer: string): string {
  if (answer === '') return 'no answer to the four-letter word srvr';
  return `srvr: ${answer.trim().split('\n', 1)[0]!}`;
}

function adviceFor(error: unknown, answer: string): string {
  if (error instanceof NotAuthorizedError) {
    return /accepts only clients/.test(error.message)
      ? 'this command has no SASL: pass --auth if the server accepts digest, or check a server that allows clients without SASL'
      : 'correct --auth or the environment variable ZOOKEEPER_AUTH';
  }
  const message = failureOf(error);
  if (/a frame of length/.test(message)) {
    return 'another program listens there: correct the address in --zookeeper';
  }
  if (/speaks TLS/.test(message)) return 'correct the port in --zookeeper, or leave out --tls';
  if (/not currently serving/.test(answer)) {
    return 'start the other servers: this one has no contact to a majority of the ensemble';
  }
  return answer === ''
    ? 'start the server, or correct the address in --zookeeper, the firewall or the TLS options'
    : 'see the log of the server';
}

async function measureLatency(session: ProbeSession): Promise<{ read: number; sync: number }> {
  const measured = async (request: () => Promise<unknown>) => {
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const startedAt = performance.now();
      await request();
      times.push(performance.now() - startedAt);
    }
    return times.sort((a, b) => a - b)[(ROUNDS - 1) / 2]!;
  };
  const read = await measured(() => session.exists('/'));
  return { read, sync: await measured(() => session.sync('/')) };
}

async function shortestTimeoutOf(target: Target, address: Address): Promise<number> {
  const session = await ProbeSession.open({ ...target, sessionTimeout: 1 }, address);
  await session.close();
  return session.timeout;
}

/** The names of settings. RaftKeeper, a fork of ClickHouse Keeper, and unknown servers count as ClickHouse Keeper. */
const ZOOKEEPER_SETTINGS = {
  fourLetterWords: '4lw.commands.whitelist',
  min: 'minSessionTimeout',
  max: 'maxSessionTimeout',
};
const KEEPER_SETTINGS = {
  fourLetterWords: 'four_letter_word_white_list',
  min: 'coordination_settings.min_session_timeout_ms',
  max: 'coordination_settings.session_timeout_ms',
};

function settingsOf({ kind }: ProbeSession): typeof ZOOKEEPER_SETTINGS {
  return kind === 'zookeeper' ? ZOOKEEPER_SETTINGS : KEEPER_SETTINGS;
}

/** Returns a check of each address, and one of each version that is unknown. */
export function checkServers(
  servers: readonly ServerFinding[],
  members: readonly ServerFinding[],
  sessionTimeout: number,
): Check[] {
  return servers.flatMap((server) => {
    const { label, srvr, srvrFailure, address, session } = server;
    const isMember = members.includes(server);
    const checks = [session ? checkUsable(server, sessionTimeout) : checkFailed(server, isMember)];
    if (address && session && !srvr) {
      checks.push({
        check: 'version',
        subject: label,
        status: 'unknown',
        found: srvrFailure ?? 'no answer',
        advice: `add srvr to ${settingsOf(session).fourLetterWords} to see the version and the mode`,
      });
    }
    return checks;
  });
}

function checkUsable(server: ServerFinding, requested: number): Check {
  const { label, srvr, latency, session, shortestTimeout = 0 } = server;
  const { timeout } = session!;
  const { read, sync } = latency!;
  const limits: string[] = [];
  if (timeout !== requested) {
    const { min, max } = settingsOf(session!);
    const [setting, direction] = timeout < requested ? [max, 'lowers'] : [min, 'raises'];
    limits.push(
      `the server ${direction} the session timeout of ${showMilliseconds(requested)}: request ${showMilliseconds(timeout)}, or change ${setting} of the servers`,
    );
  }
  const safeTimeout = SAFE_TIMEOUTS * shortestTimeout;
  if (timeout < safeTimeout) {
    limits.push(
      `a partition of the servers may let a lease outlive its session for a moment: request ${showMilliseconds(safeTimeout)}, which are eight ticks, or lower tickTime`,
    );
  }
  if (Math.max(read, sync) > SLOW) {
    limits.push('each grant waits for the server: look at its disk, its memory and the network');
  }
  if (srvr && isOld(srvr)) limits.push('use ZooKeeper 3.6 or later');
  const details = [
    [srvr?.title, srvr?.mode].filter(Boolean).join(', ') || undefined,
    `session of ${showMilliseconds(timeout)}`,
    `read ${showMilliseconds(read)}, sync ${showMilliseconds(sync)}`,
  ];
  return {
    check: 'server',
    subject: label,
    status: limits.length > 0 ? 'limit' : 'ok',
    found: details.filter(Boolean).join('; '),
    advice: limits.length > 0 ? limits.join('; ') : undefined,
    data: {
      reachable: true,
      version: srvr?.version ?? null,
      mode: srvr?.mode ?? null,
      sessionTimeout: timeout,
      readMs: Number(read.toFixed(3)),
      syncMs: Number(sync.toFixed(3)),
    },
  };
}

/** @param isMember false for an address of a host that is reached at another address */
function checkFailed(server: ServerFinding, isMember: boolean): Check {
  const { label, srvr, failure = '', advice } = server;
  const status = isMember ? 'limit' : 'ok';
  return {
    check: 'server',
    subject: label,
    status,
    found: isMember ? failure : `${failure}; the host is reached at its other address`,
    advice: isMember ? advice : undefined,
    data: { reachable: false, version: srvr?.version ?? null, mode: srvr?.mode ?? null },
  };
}

function isOld({ title, version }: SrvrAnswer): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  if (!title.startsWith('ZooKeeper') || major === undefined) return false;
  const [oldestMajor, oldestMinor] = OLDEST_VERSION;
  return Number(major) * 1000 + Number(minor) < oldestMajor * 1000 + oldestMinor;
}

/**
 * Returns the servers that the connect string names. A host with addresses of both families counts by the family that
 * reaches more servers, because both families usually lead to the same ones.
 */
export function membersOf(servers: readonly ServerFinding[]): ServerFinding[] {
  const hosts = [...new Set(servers.map(({ host }) => host))];
  return hosts.flatMap((host) => {
    const all = servers.filter((server) => server.host === host);
    const isIpv6 = ({ address }: ServerFinding) => address?.ip.includes(':') ?? false;
    const families = [all.filter((server) => !isIpv6(server)), all.filter(isIpv6)];
    const usable = families.map((family) => family.filter(({ session }) => session).length);
    if (families[0]!.length === 0 || usable[1]! > usable[0]!) return families[1]!;
    return usable[0] === usable[1] && usable[0] === 0 ? all : families[0]!;
  });
}

/** Resolves once a condition holds; false if it does not within `limit` milliseconds. */
export async function eventually(
  condition: () => Promise<boolean>,
  limit: number,
  signal: AbortSignal,
): Promise<boolean> {
  const deadline = performance.now() + limit;
  for (;;) {
    if (await condition()) return true;
    if (performance.now() > deadline) return false;
    await pause(50, undefined, { signal });
  }
}
