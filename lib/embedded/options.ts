import { PROFILES, type EmbeddedServerKind } from './profiles.js';

/**
 * Options of an embedded server. The defaults suit tests and development.
 *
 * @publicApi
 */
export interface EmbeddedZooKeeperOptions {
  /**
   * The server whose behaviour the embedded server copies: `zookeeper` or `clickhouse-keeper` (version 25.8). They differ in
   * the stats of znodes, transaction ids, sessions, watches, missing operations and four-letter words. Default
   * `'zookeeper'`.
   */
  server?: EmbeddedServerKind | undefined;
  /** The port number. 0 lets the system choose a free port. Default 0. */
  port?: number | undefined;
  /** The address to listen on. With the default, only this machine can connect. Default `127.0.0.1`. */
  host?: string | undefined;
  /**
   * Milliseconds. Sessions expire at whole ticks. The default is a quarter of the real server's, so that the server grants
   * short session timeouts as requested. Default 500.
   */
  tickTime?: number | undefined;
  /** The minimum session timeout, milliseconds. A client that requests less gets this. Default 2 ticks. */
  minSessionTimeout?: number | undefined;
  /** The maximum session timeout, milliseconds. A client that requests more gets this. Default 20 ticks, but at least 60,000. */
  maxSessionTimeout?: number | undefined;
  /**
   * Milliseconds between two checks, each of which removes the containers that have lost their last child and the
   * TTL nodes that have expired. The real server's `znode.container.checkIntervalMs`, with the same default. A test that
   * waits for a removal sets less. Default 60,000.
   */
  containerCheckInterval?: number | undefined;
  /**
   * The four-letter words that are answered; `['*']` stands for all. The real server's `4lw.commands.whitelist`. `srvr`
   * is always answered. The default is that of the copied server, so that a program that needs another word fails here
   * first. Default for `zookeeper`: `['srvr']`.
   */
  fourLetterWords?: readonly string[] | undefined;
  /**
   * The number of connections that clients of one address may have; further ones are closed at once. 0 sets no limit,
   * because all clients are on one machine here. The real server's default is 60. Default 0.
   */
  maxClientCnxns?: number | undefined;
  /**
   * `user:hash`, where the hash is that of a digest ACL: a client that authenticates as this user with scheme
   * `digest` passes every ACL. The real server's `zookeeper.DigestAuthenticationProvider.superDigest`. Default:
   * none.
   */
  superDigest?: string | undefined;
}

/** The resolved options; `superDigest` is empty if there is no superuser. */
export type ServerOptions = Readonly<Required<EmbeddedZooKeeperOptions>>;

const FOUR_LETTER_WORDS =
  'conf cons crst dirs dump envi gtmk isro mntr ruok srst srvr stat stmk wchc wchp wchs'.split(' ');
const MAX_MILLISECONDS = 0x7fff_ffff;
/** Clients often request 30 s; the real server's maximum of 20 ticks would reduce that to 10 s. */
const GENEROUS_SESSION_TIMEOUT = 60_000;

export function resolveOptions(options: EmbeddedZooKeeperOptions): ServerOptions {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`EmbeddedZooKeeper: options must be an object, got ${show(options)}`);
  }
  const { port = 0, host = '127.0.0.1', tickTime = 500, superDigest = '' } = options;
  const { server = 'zookeeper' } = options;
  checkServer('EmbeddedZooKeeper', server);
  const profile = PROFILES[server];
  integer('port', port, 0, 65_535);
  if (typeof host !== 'string' || host === '' || host.includes('\0')) {
    throw new TypeError(
      `EmbeddedZooKeeper: host must be an address to listen on, got ${show(host)}`,
    );
  }
  integer('tickTime', tickTime, 10, 60_000);
  const { minSessionTimeout = 2 * tickTime } = options;
  integer('minSessionTimeout', minSessionTimeout, 1, MAX_MILLISECONDS);
  const longest = Math.max(20 * tickTime, GENEROUS_SESSION_TIMEOUT, minSessionTimeout);
  const { maxSessionTimeout = longest } = options;
  integer('maxSessionTimeout', maxSessionTimeout, minSessionTimeout, MAX_MILLISECONDS);
  const { containerCheckInterval = 60_000, maxClientCnxns = 0 } = options;
  integer('containerCheckInterval', containerCheckInterval, 1, MAX_MILLISECONDS);
  integer('maxClientCnxns', maxClientCnxns, 0, MAX_MILLISECONDS);
  if (options.superDigest !== undefined && !/^[^:]+:[A-Za-z0-9+/]{27}=$/.test(superDigest)) {
    throw new TypeError(
      `EmbeddedZooKeeper: superDigest must be a user, a colon and a SHA-1 hash in Base64, got <${typeof superDigest}>`,
    );
  }
  const { fourLetterWords = profile.fourLetterWords } = options;
  const known = ['*', ...FOUR_LETTER_WORDS, ...(profile.featureFlags ? ['ftfl'] : [])];
  if (!Array.isArray(fourLetterWords) || !fourLetterWords.every((word) => known.includes(word))) {
    const got = JSON.stringify(fourLetterWords);
    throw new TypeError(
      `EmbeddedZooKeeper: fourLetterWords must be an array of ${known.join(', ')}, got ${got}`,
    );
  }
  const resolved: ServerOptions = {
    server,
    port,
    host,
    tickTime,
    minSessionTimeout,
    maxSessionTimeout,
    containerCheckInterval,
    fourLetterWords,
    maxClientCnxns,
    superDigest,
  };
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(resolved, name)) {
      throw new TypeError(`EmbeddedZooKeeper: unknown option ${show(name)}`);
    }
  }
  return resolved;
}

/**
 * Checks the option `server`.
 *
 * @param owner the class or function that takes the option, as the message names it
 * @throws TypeError
 */
export function checkServer(owner: string, server: unknown): void {
  if (typeof server === 'string' && Object.hasOwn(PROFILES, server)) return;
  const kinds = Object.keys(PROFILES).join(', ');
  throw new TypeError(`${owner}: server must be one of ${kinds}, got ${show(server)}`);
}

export function integer(name: string, value: unknown, least: number, most: number): void {
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw new TypeError(`EmbeddedZooKeeper: ${name} must be a whole number, got ${show(value)}`);
  }
  if (value < least || value > most) {
    throw new RangeError(
      `EmbeddedZooKeeper: ${name} must be between ${least} and ${most}, got ${value}`,
    );
  }
}

/** Returns the connect string for clients on the machine of a server. */
export function connectStringOf({ host, port }: Pick<ServerOptions, 'host' | 'port'>): string {
  if (host === '0.0.0.0' || host === '::') return `127.0.0.1:${port}`;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Parses a session id in hexadecimal, as clients and logs write it, into the number on the wire. */
export function parseSessionId(id: string): bigint {
  const digits = typeof id === 'string' ? /^(?:0x)?([0-9a-f]{1,16})$/i.exec(id)?.[1] : undefined;
  if (!digits) {
    throw new TypeError(`EmbeddedZooKeeper: a session id must be hexadecimal, got ${show(id)}`);
  }
  return BigInt.asIntN(64, BigInt(`0x${digits}`));
}

export function show(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
