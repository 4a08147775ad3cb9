import { randomInt } from 'node:crypto';
import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect as connectTcp, isIP, isIPv6 } from 'node:net';
import { setImmediate } from 'node:timers';
import { BadOptionError, ConnectionError, errorCode } from './errors.js';
import { sleep } from './sleep.js';
import { type Address, allFailed, unreachableError } from './transport/transport.js';
import { checkPath, isRecord, withheld, withoutPassword } from './validation.js';

/** A host of the connect string, whose name is not resolved yet. */
export type Host = Omit<Address, 'ip'>;

const DEFAULT_PORT = 2181;

/** A URL scheme, as in `http://zk1`, which would otherwise be parsed as a host with a chroot. */
const SCHEME = /(?:^|,)\s*[a-z][a-z0-9+.-]*:\/\//i;

/**
 * Parses a connect string of ZooKeeper: `host[:port],[ipv6]:port/chroot`. Duplicate hosts are removed. The chroot is
 * empty, or an absolute path to which all paths of the client are relative.
 *
 * @throws BadOptionError
 */
export function parseConnectString(text: unknown): { hosts: readonly Host[]; chroot: string } {
  const shown = isRecord(text) ? withheld(text) : withoutPassword(text);
  const refuse = (expected: string) => new BadOptionError('connectString', shown, expected);
  if (typeof text !== 'string' || text.trim() === '') {
    throw refuse("hosts as in 'zk1:2181,zk2:2181/chroot'");
  }
  if (SCHEME.test(text)) throw refuse("hosts without a scheme, as in 'zk1:2181,zk2:2181/chroot'");
  const slash = text.indexOf('/');
  const byLabel = new Map<string, Host>();
  for (const part of (slash < 0 ? text : text.slice(0, slash)).split(',')) {
    const host = parseHost(part.trim());
    if (!host) {
      if (shown !== text) throw refuse('hosts without credentials, which auth or sasl takes');
      throw refuse(`hosts as in 'zk1:2181,[::1]:2181/chroot' (see ${JSON.stringify(part)})`);
    }
    byLabel.set(host.label.toLowerCase(), host);
  }
  let chroot = '';
  try {
    if (slash >= 0) chroot = checkPath(text.slice(slash).trim(), "connectString's chroot");
  } catch (error) {
    // The chroot may be the part behind a slash in a password.
    if (shown === text) throw error;
    throw refuse('hosts and an absolute path, without credentials, which auth or sasl takes');
  }
  return { hosts: [...byLabel.values()], chroot: chroot === '/' ? '' : chroot };
}

function parseHost(text: string): Host | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text);
  if (!match) return undefined;
  const [, literal, name, digits] = match;
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (port < 1 || port > 65_535) return undefined;
  if (literal !== undefined) {
    if (!isIPv6(literal)) return undefined;
    return { host: literal, port, label: `[${literal}]:${port}` };
  }
  // A variable that is not set gives `undefined:2181`.
  if (!/^(?!(undefined|null)$)[A-Za-z0-9._-]+$/.test(name)) return undefined;
  return { host: name, port, label: `${name}:${port}` };
}

/**
 * The hosts of the ensemble in rotation, from a random one, so that clients spread over the servers. Counterpart of
 * ZooKeeper's HostProvider.
 */
export class HostProvider {
  readonly #hosts: Host[];
  #next = 0;

  constructor(hosts: readonly Host[], random: (below: number) => number = randomInt) {
    this.#hosts = shuffled(hosts, random);
  }

  get size(): number {
    return this.#hosts.length;
  }

  /** All hosts, for messages. */
  get label(): string {
    return this.#hosts.map((host) => host.label).join(', ');
  }

  next(): Host {
    return this.#hosts[this.#next++ % this.#hosts.length];
  }
}

/**
 * Resolves the name of a host to its current addresses, in random order, IPv6 and IPv4 in turn: one of the two may not
 * work in this network.
 *
 * @throws ConnectionError if the name does not resolve
 */
export async function resolveHost({ host, port, label }: Host): Promise<Address[]> {
  if (isIP(host)) return [{ ip: host, port, host, label }];
  try {
    const found = await lookup(host, { all: true });
    const ips = alternated(shuffled(found, randomInt));
    return ips.map((ip) => ({ ip, port, host, label }));
  } catch (cause) {
    throw new ConnectionError(`${label}: the name does not resolve (${errorCode(cause)})`, {
      cause,
    });
  }
}

/** Returns the IP addresses of both families in turn. The first address stays the first. */
function alternated(found: readonly LookupAddress[]): string[] {
  const same = found.filter(({ family }) => family === found[0].family);
  const other = found.filter(({ family }) => family !== found[0].family);
  return found
    .flatMap((_, index) => [...same.slice(index, index + 1), ...other.slice(index, index + 1)])
    .map(({ address }) => address);
}

/** @param random returns a whole number from 0 up to, but not including, `below` */
function shuffled<T>(items: readonly T[], random: (below: number) => number): T[] {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last--) {
    const other = random(last + 1);
    [result[last], result[other]] = [result[other], result[last]];
  }
  return result;
}

/**
 * Resolves if a TCP connection to the address succeeds, after that connection is closed.
 *
 * @throws ConnectionError if it fails, or the signal's reason
 */
export async function probe(address: Address, signal: AbortSignal): Promise<void> {
  const socket = connectTcp({ host: address.ip, port: address.port, signal });
  try {
    await once(socket, 'connect');
  } catch (error) {
    signal.throwIfAborted();
    throw unreachableError(address, error);
  } finally {
    socket.destroy();
    if (!socket.closed) await once(socket, 'close');
  }
  await new Promise((resolve) => setImmediate(resolve));
}

/** Milliseconds until the next address is tried while the earlier attempts are pending: RFC 8305's "Connection Attempt Delay". */
const ATTEMPT_DELAY = 250;

/**
 * Resolves to the first address to which a TCP connection succeeds. The attempts start in the given order, each one
 * 250 ms after the one before it or as soon as that one failed (Happy Eyeballs, RFC 8305).
 *
 * @throws ConnectionError if all fail, or the signal's reason
 */
export async function firstReachable(
  addresses: readonly Address[],
  signal: AbortSignal,
): Promise<Address> {
  const over = new AbortController();
  const attempts = AbortSignal.any([signal, over.signal]);
  let start: Promise<unknown> = Promise.resolve();
  const reached = addresses.map((address) => {
    const attempt = start.then(() => probe(address, attempts)).then(() => address);
    const delay = start.then(() => sleep(ATTEMPT_DELAY, { signals: [attempts], ref: true }));
    start = Promise.race([delay, attempt]).catch(() => {});
    return attempt;
  });
  try {
    return await Promise.any(reached);
  } catch (error) {
    signal.throwIfAborted();
    throw allFailed((error as AggregateError).errors);
  } finally {
    over.abort();
  }
}
