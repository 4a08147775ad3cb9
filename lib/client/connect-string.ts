import { isIPv6 } from 'node:net';
import { BadOptionError } from './errors.js';
import { checkPath } from './validation.js';

export interface Host {
  /** A name, or an IP literal without brackets. */
  readonly host: string;
  readonly port: number;
  /** `host:port`, with brackets around an IPv6 literal. */
  readonly label: string;
}

interface ConnectString {
  readonly hosts: readonly Host[];
  /** Empty, or an absolute path. All paths of the client are relative to it. */
  readonly chroot: string;
}

const DEFAULT_PORT = 2181;

/** A URL scheme, as in `http://zk1`, which would otherwise be parsed as a host with a chroot. */
const SCHEME = /(?:^|,)\s*[a-z][a-z0-9+.-]*:\/\//i;

/**
 * Parses a connect string of ZooKeeper: `host[:port],[ipv6]:port/chroot`. Duplicate hosts are removed.
 *
 * @throws BadOptionError
 */
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
    if (!host) {
      throw refuse(`hosts as in 'zk1:2181,[::1]:2181/chroot' (see ${JSON.stringify(part)})`);
    }
    byLabel.set(host.label.toLowerCase(), host);
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
  if (!/^[A-Za-z0-9._-]+$/.test(name)) return undefined;
  return { host: name, port, label: `${name}:${port}` };
}
