import { inspect } from 'node:util';
import type { ZkClient } from '../../client/index.js';
import { checkServer, parseSessionId } from '../../embedded/options.js';
import type { EmbeddedServerKind } from '../../embedded/profiles.js';
import { toHex } from '../../embedded/store.js';

/**
 * Options of a simulation.
 *
 * @publicApi
 */
export interface SimulationOptions {
  /** A whole number from 0 to 2^32 − 1. The same seed repeats the same run. Default: random. */
  seed?: number | undefined;
  /**
   * Virtual milliseconds after which a scenario fails if it has not ended. An hour with few events takes less than a
   * second of real time. Default 3,600,000 (one hour).
   */
  limit?: number | undefined;
  /**
   * The server whose behaviour the simulated servers copy; see `EmbeddedZooKeeperOptions.server`. Default `'zookeeper'`.
   */
  server?: EmbeddedServerKind | undefined;
  /** The number of servers, 1 to 7. The ensemble needs a majority of them. Default 1. */
  servers?: number | undefined;
  /**
   * The tick time of the servers in milliseconds, 10 to 60,000. A session timeout is at least two ticks, and sessions
   * expire at whole ticks. The servers remove empty containers once in a tick. Default 500.
   */
  tickTime?: number | undefined;
  /** The minimum and maximum latency of a message in each direction, in milliseconds. Default `[0.1, 1]`. */
  latency?: readonly [min: number, max: number] | undefined;
  /**
   * The minimum and maximum delay, in milliseconds, after which a server applies the writes of other servers. Until
   * then its clients read stale data, unless they sync. Default `[0, 20]`. A single server has no lag.
   */
  lag?: readonly [min: number, max: number] | undefined;
  /**
   * The number of ticks, 1 to 100, for which an isolated server still answers reads; see `SimulatedServer.isolate()`.
   * ZooKeeper's sample configuration has the same default. Default 5.
   */
  syncLimit?: number | undefined;
}

/**
 * Options of one process of a simulation.
 *
 * @publicApi
 */
export interface ProcessOptions {
  /** The rate of the clocks of the process, 0.5 to 2. A clock of rate 1.01 gains one per cent. Default 1. */
  clockRate?: number | undefined;
}

export type CheckedOptions = Readonly<Required<SimulationOptions>>;

export const OPTION_NAMES = new Set([
  'seed',
  'limit',
  'server',
  'servers',
  'tickTime',
  'latency',
  'lag',
  'syncLimit',
]);
const MAX_SEED = 2 ** 32 - 1;
const MAX_SERVERS = 7;
const MAX_SYNC_LIMIT = 100;
const MAX_MILLISECONDS = Number.MAX_SAFE_INTEGER;

/**
 * Checks options and adds the defaults.
 *
 * @throws TypeError or RangeError that names the option and its value
 */
export function checkOptions(options: SimulationOptions, randomSeed: number): CheckedOptions {
  checkNames('simulate()', options, OPTION_NAMES);
  const { seed = randomSeed, limit = 3_600_000, servers = 1, tickTime = 500 } = options;
  const { server = 'zookeeper' } = options;
  const { latency = [0.1, 1], lag = [0, 20], syncLimit = 5 } = options;
  checkWholeNumber('seed', seed, 0, MAX_SEED);
  checkNumber('limit', limit, 1);
  checkServer('simulate', server);
  checkWholeNumber('servers', servers, 1, MAX_SERVERS);
  checkWholeNumber('tickTime', tickTime, 10, 60_000);
  checkBounds('latency', latency);
  checkBounds('lag', lag);
  checkWholeNumber('syncLimit', syncLimit, 1, MAX_SYNC_LIMIT);
  return { seed, limit, server, servers, tickTime, latency, lag, syncLimit };
}

function checkWholeNumber(name: string, value: unknown, min: number, max: number): void {
  if (!Number.isInteger(value)) {
    throw new TypeError(`simulate: ${name} must be a whole number, got ${formatValue(value)}`);
  }
  checkNumber(name, value, min, max);
}

/** Checks that a value is a number in a range. The TypeError or RangeError of another one names it. */
export function checkNumber(
  name: string,
  value: unknown,
  min: number,
  max = MAX_MILLISECONDS,
): void {
  checkType(name, value, 'number');
  if ((value as number) < min || (value as number) > max) {
    throw new RangeError(`simulate: ${name} must be from ${min} to ${max}, got ${value}`);
  }
}

/** As {@link checkNumber}, for the minimum and maximum of a random number of milliseconds. */
export function checkBounds(name: string, value: unknown): void {
  if (!Array.isArray(value) || value.length !== 2) {
    throw new TypeError(
      `simulate: ${name} must be [min, max] milliseconds, got ${formatValue(value)}`,
    );
  }
  checkNumber(`${name}[0]`, value[0], 0, 60_000);
  checkNumber(`${name}[1]`, value[1], value[0] as number, 60_000);
}

/** Checks that an object has no other options than these. The TypeError names the option and its owner, a function. */
export function checkNames(owner: string, options: unknown, names: ReadonlySet<string>): void {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(
      `simulate: the options of ${owner} must be an object, got ${formatValue(options)}`,
    );
  }
  for (const name of Object.keys(options)) {
    if (names.has(name)) continue;
    const known = [...names].join(', ');
    throw new TypeError(
      `simulate: unknown option ${formatValue(name)} of ${owner}; the options are ${known}`,
    );
  }
}

/** Checks the type of a value. The TypeError of another one names it. */
export function checkType(
  name: string,
  value: unknown,
  type: 'function' | 'number' | 'string',
): void {
  if (typeof value === type && !Number.isNaN(value)) return;
  throw new TypeError(`simulate: ${name} must be a ${type}, got ${formatValue(value)}`);
}

/** Formats a value for a message in one line. Strings are quoted. */
export function formatValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'object'
    ? inspect(value, { depth: 0, breakLength: Infinity })
    : String(value);
}

/** Checks the name of a new process, which is neither empty nor reserved. */
export function checkProcessName(name: string, reserved: readonly string[]): void {
  checkType('the name of a process', name, 'string');
  if (name === '') throw new TypeError('simulate: the name of a process must not be empty');
  if (reserved.includes(name)) {
    throw new TypeError(
      `simulate: the name ${formatValue(name)} is reserved for the simulation; choose another name`,
    );
  }
}

/**
 * Returns the session of a client as hexadecimal text and as a number.
 *
 * @param client the client, or the id of its session in hexadecimal
 * @param method the method that takes the client
 * @throws Error if the client has no session; TypeError if `client` is neither a client nor an id
 */
export function sessionOf(
  client: ZkClient | string,
  method: string,
): { session: string; id: bigint } {
  const session: unknown = typeof client === 'string' ? client : client?.sessionId;
  if (session === undefined && client instanceof Object && 'sessionId' in client) {
    throw new Error(
      `simulate: the client of ${method}() has no session, because it is closed or not yet connected`,
    );
  }
  if (typeof session !== 'string' || !/^(0x)?[\da-f]{1,16}$/i.test(session)) {
    throw new TypeError(
      `simulate: the client of ${method}() must be a ZkClient or the id of a session in hexadecimal, got ${formatValue(client)}`,
    );
  }
  const id = parseSessionId(session);
  return { id, session: `0x${toHex(id)}` };
}
