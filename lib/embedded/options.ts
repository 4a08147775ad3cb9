/**
 * How an embedded server runs. Every field has a default made for tests and development.
 *
 * @publicApi
 */
export interface EmbeddedZooKeeperOptions {
  /** 0 lets the system choose a free port. Default 0. */
  port?: number;
  /** The address to listen on. Default `127.0.0.1`: nobody outside of this machine reaches it. */
  host?: string;
  /**
   * Milliseconds; sessions expire at whole ticks, emptied containers go once a tick. Default 500, a
   * quarter of the real server's, so that short session timeouts are granted as asked.
   */
  tickTime?: number;
  /** Milliseconds; a client that asks for less gets this. Default 2 ticks. */
  minSessionTimeout?: number;
  /** Milliseconds; a client that asks for more gets this. Default 20 ticks, but at least 60,000. */
  maxSessionTimeout?: number;
}

/** All of them, as the server needs them. */
export interface ServerOptions {
  readonly port: number;
  readonly host: string;
  readonly tickTime: number;
  readonly minSessionTimeout: number;
  readonly maxSessionTimeout: number;
  /** Milliseconds between two looks for emptied containers and outlived TTL nodes. */
  readonly reapInterval: number;
}

const NAMES = new Set(['port', 'host', 'tickTime', 'minSessionTimeout', 'maxSessionTimeout']);
const MAX_MILLISECONDS = 0x7fff_ffff;
/** A dev server's clients ask for 30 s and mean it: the real server's 20 ticks would cut that to 10 s. */
const GENEROUS_SESSION_TIMEOUT = 60_000;

export function resolveOptions(options: EmbeddedZooKeeperOptions): ServerOptions {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`EmbeddedZooKeeper: options must be an object, got ${show(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (!NAMES.has(name)) throw new TypeError(`EmbeddedZooKeeper: unknown option ${show(name)}`);
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
  return { port, host, tickTime, minSessionTimeout, maxSessionTimeout, reapInterval: tickTime };
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

export function show(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
