/**
 * How a simulation runs.
 *
 * @publicApi
 */
export interface SimulationOptions {
  /** A whole number from 0 to 2^32 − 1. The same seed repeats the same run. Default: a random number. */
  seed?: number;
  /**
   * Virtual milliseconds after which a scenario that has not ended fails. Default 3,600,000, one hour. An hour in
   * which little happens takes less than a second.
   */
  limit?: number;
  /** The number of servers, 1 to 7. A majority of them must run. Default 1. */
  servers?: number;
  /**
   * Milliseconds, 10 to 60,000. Sessions last two ticks at least and expire at whole ticks. The servers remove empty
   * containers once a tick. Default 500.
   */
  tickTime?: number;
  /** Bounds of the time that a message takes each way, in milliseconds. Default `[0.1, 1]`. */
  latency?: readonly [least: number, most: number];
  /**
   * Bounds of the time by which a server trails the others, in milliseconds. In this time its clients read old data,
   * unless they sync. Default `[0, 20]`. The option has no effect on a single server.
   */
  lag?: readonly [least: number, most: number];
}

export type CheckedOptions = Readonly<Required<SimulationOptions>>;

const NAMES = new Set(['seed', 'limit', 'servers', 'tickTime', 'latency', 'lag']);
const MOST_SEED = 2 ** 32 - 1;
const MOST_SERVERS = 7;
const LONGEST = Number.MAX_SAFE_INTEGER;

/**
 * Checks options and adds the defaults.
 *
 * @throws TypeError or RangeError that names the option and its value
 */
export function checkSimulation(options: SimulationOptions, randomSeed: number): CheckedOptions {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`simulate: options must be an object, got ${show(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (!NAMES.has(name)) throw new TypeError(`simulate: unknown option ${show(name)}`);
  }
  const { seed = randomSeed, limit = 3_600_000, servers = 1, tickTime = 500 } = options;
  const { latency = [0.1, 1], lag = [0, 20] } = options;
  whole('seed', seed, 0, MOST_SEED);
  milliseconds('limit', limit, 1, LONGEST);
  whole('servers', servers, 1, MOST_SERVERS);
  whole('tickTime', tickTime, 10, 60_000);
  bounds('latency', latency);
  bounds('lag', lag);
  return { seed, limit, servers, tickTime, latency, lag };
}

function whole(name: string, value: unknown, least: number, most: number): void {
  if (!Number.isInteger(value)) {
    throw new TypeError(`simulate: ${name} must be a whole number, got ${show(value)}`);
  }
  milliseconds(name, value, least, most);
}

/**
 * Checks a number of milliseconds.
 *
 * @throws TypeError or RangeError with the name and the value
 */
export function milliseconds(name: string, value: unknown, least: number, most = LONGEST): void {
  if (typeof value !== 'number' || Number.isNaN(value)) {
    throw new TypeError(`simulate: ${name} must be a number, got ${show(value)}`);
  }
  if (value < least || value > most) {
    throw new RangeError(`simulate: ${name} must be from ${least} to ${most}, got ${value}`);
  }
}

/**
 * Checks the bounds of a random number of milliseconds.
 *
 * @throws TypeError or RangeError with the name and the value
 */
export function bounds(name: string, value: unknown): void {
  if (!Array.isArray(value) || value.length !== 2) {
    throw new TypeError(`simulate: ${name} must be [least, most] milliseconds, got ${show(value)}`);
  }
  milliseconds(`${name}[0]`, value[0], 0, 60_000);
  milliseconds(`${name}[1]`, value[1], value[0] as number, 60_000);
}

/** Describes a value for a message. Strings have quotes. */
export function show(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
