import { randomInt } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { connect, isIP, isIPv6 } from 'node:net';
import { BadOptionError, ConnectionError } from './errors.js';
import type { Address } from './transport/transport.js';
import { checkPath } from './validation.js';

export interface Host {
  /** A name, or an IP literal without brackets. */
  readonly host: string;
  readonly port: number;
  /** `host:port` as one writes it, for messages. */
  readonly label: string;
}

interface ConnectString {
  readonly hosts: readonly Host[];
  /** Empty, or an absolute path that every path of the client stands below. */
  readonly chroot: string;
}

const DEFAULT_PORT = 2181;

/** As in `http://zk1`: it would be taken for a host with a chroot. */
const SCHEME = /(?:^|,)\s*[a-z][a-z0-9+.-]*:\/\//i;

/** Parses ZooKeeper's connect string: `host[:port],[ipv6]:port/chroot`. */
export function parseConnectString(text: unknown, option = 'connectString'): ConnectString {
  const refuse = (expected: string) => new BadOptionError(option, text, expected);
  if (typeof text !== 'string' || text.trim() === '') {
    throw refuse("hosts as in 'zk1:2181,zk2:2181/chroot'");
  }
  if (SCHEME.test(text)) throw refuse("hosts without a scheme, as in 'zk1:2181,zk2:2181/chroot'");
  const slash = text.indexOf('/');
  const chroot = slash < 0 ? '' : checkPath(text.slice(slash).trim(), `${option}'s chroot`);
  const byLabel = new Map<string, Host>();
  for (const part of (slash < 0 ? text : text.slice(0, slash)).split(',')) {
    const host = parseHost(part.trim());
    if (!host)
      throw refuse(`hosts as in 'zk1:2181,[::1]:2181/chroot' (see ${JSON.stringify(part)})`);
    byLabel.set(host.label.toLowerCase(), host);
  }
  return { hosts: [...byLabel.values()], chroot: chroot === '/' ? '' : chroot };
}

/** The path that travels. */
export function joinPath(chroot: string, path: string): string {
  return path === '/' && chroot ? chroot : chroot + path;
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
  if (!/^[A-Za-z0-9._-]+$/.test(name)) return undefined;
  return { host: name, port, label: `${name}:${port}` };
}

/** The ensemble's hosts, in random order so that clients spread, and then one after the other. */
export class HostRing {
  readonly #hosts: Host[];
  #next = 0;

  constructor(hosts: readonly Host[], random: (below: number) => number = randomInt) {
    this.#hosts = shuffled(hosts, random);
  }

  get size(): number {
    return this.#hosts.length;
  }

  get label(): string {
    return this.#hosts.map((host) => host.label).join(', ');
  }

  next(): Host {
    const host = this.#hosts[this.#next % this.#hosts.length];
    this.#next++;
    return host;
  }
}

/** A host's addresses as of now. Resolved here because the native client would ask after every reply. */
export async function resolve({ host, port, label }: Host): Promise<Address[]> {
  if (isIP(host)) return [{ ip: host, port, host, label }];
  try {
    const found = await lookup(host, { all: true });
    return shuffled(found, randomInt).map(({ address: ip }) => ({ ip, port, host, label }));
  } catch (cause) {
    throw new ConnectionError(`${label}: the name does not resolve (${codeOf(cause)})`, { cause });
  }
}

/**
 * Whether anything listens there: the native client says nothing at all about a connection that fails.
 * The probe's socket is closed altogether when this resolves.
 */
export function probe(address: Address, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    if (signal.aborted) return fail(signal.reason);
    const socket = connect({ host: address.ip, port: address.port });
    let failure: unknown;
    const abort = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    socket.on('connect', () => socket.destroy());
    socket.on('error', (error) => (failure = error));
    socket.on('close', () => {
      signal.removeEventListener('abort', abort);
      if (signal.aborted) return fail(signal.reason);
      if (failure === undefined) return setImmediate(done);
      fail(unreachable(address, failure));
    });
  });
}

export function unreachable({ label, ip }: Address, cause: unknown): ConnectionError {
  return new ConnectionError(`${label}: no connection to ${ip} (${codeOf(cause)})`, { cause });
}

function codeOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return code ?? String(error);
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
