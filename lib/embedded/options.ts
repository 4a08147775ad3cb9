/**
 * Options of an embedded server. The defaults suit tests and development.
 *
 * @publicApi
 */
export interface EmbeddedZooKeeperOptions {
  /** 0 lets the system choose a free port. Default 0. */
  port?: number;
  /** The address to listen on. Default `127.0.0.1`: only this machine can connect. */
  host?: string;
  /**
   * Milliseconds. Sessions expire at whole ticks, and empty containers are reaped once a tick. Default 500, a
   * quarter of the real server's, so that the server grants short session timeouts as requested.
   */
  tickTime?: number;
  /** Milliseconds. A client that requests less gets this. Default 2 ticks. */
  minSessionTimeout?: number;
  /** Milliseconds. A client that requests more gets this. Default 20 ticks, but at least 60,000. */
  maxSessionTimeout?: number;
}

/** The resolved options. */
export interface ServerOptions extends Readonly<Required<EmbeddedZooKeeperOptions>> {
  /** Milliseconds between two searches for empty containers and expired TTL nodes. */
  readonly reapInterval: number;
}

const MAX_MILLISECONDS = 0x7fff_ffff;
/** Clients often request 30 s; the real server's maximum of 20 ticks would reduce that to 10 s. */
const GENEROUS_SESSION_TIMEOUT = 60_000;

export function resolveOptions(options: EmbeddedZooKeeperOptions): ServerOptions {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`EmbeddedZooKeeper: options must be an object, got ${show(options)}`);
  }
  const { port = 0, host = '127.0.0.1', tickTime = 500 } = options;
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
  const resolved = { port, host, tickTime, minSessionTimeout, maxSessionTimeout };
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(resolved, name)) {
      throw new TypeError(`EmbeddedZooKeeper: unknown option ${show(name)}`);
    }
  }
  return { ...resolved, reapInterval: tickTime };
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
