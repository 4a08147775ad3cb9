import type { Type } from '@nestjs/common';
import type { ConfigurableModuleAsyncOptions } from '@nestjs/common';
import { BadOptionError } from './client/errors.js';
import type { ZkClientOptions } from './client/index.js';
import { CLIENT_OPTIONS } from './client/options.js';
import type { ErrorMapping } from './decorators/zk-exception.filter.js';
import type { EmbeddedZooKeeperOptions } from './embedded/index.js';
import {
  checkElections,
  type ElectionAtStart,
  type ElectionOptions,
} from './services/service-options.js';
import { checkKey } from './services/keys.js';
import {
  checkKnownOptions,
  checkLeaseDefaults,
  type LeaseDefaults,
} from './services/service-options.js';
import type { Limits } from './services/overdue-monitor.js';

/** Node's longest timer. */
const LONGEST_TIMEOUT = 2 ** 31 - 1;
const DEFAULT_SHUTDOWN_TIMEOUT = 10_000;
const DEFAULT_WARN_AFTER = 30_000;

/**
 * After how long the log warns.
 *
 * @publicApi
 */
export interface WarnAfter {
  /** Milliseconds that something was waited for. Infinity: never. Default 30,000. */
  wait?: number;
  /** Milliseconds that something was held. Infinity: never. Default 30,000. */
  hold?: number;
}

/**
 * What `ZkModule` takes beside the options of its client.
 *
 * @publicApi
 */
export interface ZkNestOptions {
  /** What the connection's services do where a call or a decorator does not say. */
  defaults?: LeaseDefaults;
  /** Elections to take part in from the application's start on, beside those that decorators name. */
  elections?: ElectionAtStart[];
  /**
   * By which the others know this instance in elections, such as the address it can be reached at.
   * Default: host name and process id.
   */
  participantId?: string;
  /**
   * True connects in the background: the application starts though nobody answers, and the next lock
   * tries again. By default it starts when ZooKeeper has answered, or fails to start.
   */
  lazyConnection?: boolean;
  /**
   * Milliseconds from the beginning of a shutdown (`onModuleDestroy`) that it waits for each
   * `takeLeadership` to settle and for held leases to come back, both together; then it closes the
   * session, which gives back the rest. Default 10,000.
   */
  shutdownTimeout?: number;
  /** When the log warns of a lock or semaphore, by its key and with who holds it. */
  warnAfter?: WarnAfter;
  /** True logs each grant and each release too, at the level `debug`. Default false. */
  logLeases?: boolean;
  /** What handlers fail with in place of the errors of their locks; see {@link ErrorMapping}. */
  mapError?: ErrorMapping;
}

/**
 * A connection to an ensemble, or to a server that is started in this process for development:
 * all that ZkClient takes, and what concerns Nest.
 *
 * @publicApi
 */
export type ZkModuleOptions = ZkNestOptions &
  (
    | (ZkClientOptions & { embedded?: false })
    | (Omit<ZkClientOptions, 'connectString'> & {
        connectString?: undefined;
        /** Starts a ZooKeeper server in this process, for development and tests. It keeps nothing. */
        embedded: true | EmbeddedZooKeeperOptions;
      })
  );

export const ZK_OPTIONS: readonly string[] = [
  ...CLIENT_OPTIONS,
  ...([
    'defaults',
    'elections',
    'participantId',
    'lazyConnection',
    'shutdownTimeout',
    'warnAfter',
    'logLeases',
    'mapError',
  ] satisfies (keyof ZkNestOptions)[]),
  'embedded',
];

/**
 * What stands beside the options of a connection, also where these come later.
 *
 * @publicApi
 */
export interface ZkModuleExtras {
  /** Tells several connections apart; see getZkClientToken, getLockServiceToken and `connection` of the decorators. */
  name?: string;
  /** False makes the connection visible only to modules that import this one. Default true. */
  isGlobal?: boolean;
}

/**
 * A class that makes the options, for `useClass` and `useExisting`.
 *
 * @publicApi
 */
export interface ZkOptionsFactory {
  /** Called once, when the connection is made. */
  createZkOptions(): Promise<ZkModuleOptions> | ZkModuleOptions;
}

/**
 * What `forRootAsync` takes: how the options are made, and what must be known before.
 *
 * @publicApi
 */
export type ZkModuleAsyncOptions = Pick<
  ConfigurableModuleAsyncOptions<ZkModuleOptions>,
  'imports' | 'inject' | 'useFactory' | 'provideInjectionTokensFrom'
> &
  ZkModuleExtras & {
    useClass?: Type<ZkOptionsFactory>;
    useExisting?: Type<ZkOptionsFactory>;
  };

/** The options, checked and sorted by who they are for. What is the client's, the client checks. */
export interface ZkSettings {
  readonly client: Omit<ZkClientOptions, 'connectString'> & { connectString?: string };
  readonly embedded: EmbeddedZooKeeperOptions | undefined;
  readonly defaults: LeaseDefaults;
  readonly elections: ReadonlyMap<string, ElectionOptions>;
  readonly participantId: string | undefined;
  readonly lazyConnection: boolean;
  readonly shutdownTimeout: number;
  readonly warnAfter: Limits;
  readonly logLeases: boolean;
  readonly mapError: ErrorMapping | undefined;
}

export function settingsOf(options: ZkModuleOptions): ZkSettings {
  checkKnownOptions('options of ZkModule', options, ZK_OPTIONS);
  const {
    defaults = {},
    elections = [],
    participantId,
    lazyConnection = false,
    shutdownTimeout = DEFAULT_SHUTDOWN_TIMEOUT,
    warnAfter = {},
    logLeases = false,
    mapError,
    embedded,
    ...client
  } = options;
  checkLeaseDefaults(defaults);
  checkElections(elections);
  if (participantId !== undefined) checkKey(participantId, 'participantId');
  if (typeof lazyConnection !== 'boolean') {
    throw new BadOptionError('lazyConnection', lazyConnection, 'true or false');
  }
  if (
    typeof shutdownTimeout !== 'number' ||
    !(shutdownTimeout >= 0 && shutdownTimeout <= LONGEST_TIMEOUT)
  ) {
    const expected = `0 to ${LONGEST_TIMEOUT} milliseconds`;
    throw new BadOptionError('shutdownTimeout', shutdownTimeout, expected);
  }
  if (typeof logLeases !== 'boolean') {
    throw new BadOptionError('logLeases', logLeases, 'true or false');
  }
  if (mapError !== undefined && typeof mapError !== 'function') {
    throw new BadOptionError('mapError', mapError, 'a function');
  }
  return {
    client,
    embedded: embeddedOf(embedded, client),
    defaults,
    elections: new Map(elections.map(entryOf)),
    participantId,
    lazyConnection,
    shutdownTimeout,
    warnAfter: limitsOf(warnAfter),
    logLeases,
    mapError,
  };
}

function limitsOf(warnAfter: WarnAfter): Limits {
  checkKnownOptions('warnAfter', warnAfter, ['wait', 'hold']);
  const { wait = DEFAULT_WARN_AFTER, hold = DEFAULT_WARN_AFTER } = warnAfter;
  for (const [option, value] of Object.entries({ wait, hold })) {
    if (typeof value !== 'number' || !(value > 0)) {
      throw new BadOptionError(
        `warnAfter.${option}`,
        value,
        'more than 0 milliseconds, or Infinity',
      );
    }
  }
  return { wait, hold };
}

function entryOf(election: ElectionAtStart): [string, ElectionOptions] {
  if (typeof election === 'string') return [election, {}];
  const { election: name, ...options } = election;
  return [name, options];
}

function embeddedOf(
  embedded: unknown,
  { connectString, tls }: ZkSettings['client'],
): EmbeddedZooKeeperOptions | undefined {
  if (embedded === undefined || embedded === false) return undefined;
  if (embedded !== true && (typeof embedded !== 'object' || embedded === null)) {
    throw new BadOptionError('embedded', embedded, "true, or the embedded server's options");
  }
  if (connectString !== undefined) {
    const expected = 'left out with embedded, whose server has an address of its own';
    throw new BadOptionError('connectString', connectString, expected);
  }
  if (tls !== undefined) {
    throw new BadOptionError('tls', tls, 'left out with embedded, whose server has none');
  }
  return embedded === true ? {} : embedded;
}
