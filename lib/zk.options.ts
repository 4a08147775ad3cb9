import type { ConfigurableModuleAsyncOptions, Type } from '@nestjs/common';
import { BadOptionError } from './client/errors.js';
import type { ZkClientOptions } from './client/index.js';
import { CLIENT_RULES } from './client/options.js';
import {
  BOOLEAN,
  checkOptions,
  FUNCTION,
  milliseconds,
  rule,
  type Rules,
  uncheckedRules,
  withheld,
} from './client/validation.js';
import type { ErrorMapping } from './decorators/zk-exception.filter.js';
import type { EmbeddedZooKeeperOptions } from './embedded/index.js';
import {
  type ElectionAtStart,
  type ElectionOptions,
  electionsByName,
} from './services/election-options.js';
import { checkKey } from './services/keys.js';
import { checkLeaseDefaults, type LeaseDefaults } from './services/lease-service.js';
import type { WarnAfter } from './services/overdue-monitor.js';

const DEFAULT_SHUTDOWN_TIMEOUT = 10_000;
const DEFAULT_WARN_AFTER = 30_000;

/**
 * Options of `ZkModule` besides those of its client.
 *
 * @publicApi
 */
export interface ZkNestOptions {
  /** Defaults for options that a call or a decorator leaves out. Default: those of each option. */
  defaults?: LeaseDefaults | undefined;
  /** Elections to join when the application starts, besides those that decorators name. Default: none. */
  elections?: ElectionAtStart[] | undefined;
  /**
   * Id of this instance in elections, as other instances see it; for example its network address. Default:
   * host name and process id.
   */
  participantId?: string | undefined;
  /**
   * True connects in the background: the application starts even if no server replies, and tries to connect until it is
   * closed. False starts the application after the connect, and fails the start when the option `retry` gives up:
   * after about 9 seconds on a closed port. Default false.
   */
  lazyConnection?: boolean | undefined;
  /**
   * Milliseconds from the start of a shutdown (`onModuleDestroy`) that it waits in total until each
   * `takeLeadership` has settled and all leases are released. Then it closes the session, which ends the
   * remaining leases. Default 10,000.
   */
  shutdownTimeout?: number | undefined;
  /** When the log warns about long waits and holds. The warning names the key and the holders. Default: after 30,000 ms. */
  warnAfter?: WarnAfter | undefined;
  /** True also logs each grant and each release, at the level `debug`. Default false. */
  logLeases?: boolean | undefined;
  /** Replaces errors that the decorators raise on handlers; see {@link ErrorMapping}. Default: no replacement. */
  mapError?: ErrorMapping | undefined;
}

/**
 * Options of a connection: to an ensemble, or to a server in this process for development. All options of
 * ZkClient, and those of `ZkNestOptions`.
 *
 * @publicApi
 */
export type ZkModuleOptions = ZkNestOptions &
  Omit<ZkClientOptions, 'connectString'> &
  (
    | (Pick<ZkClientOptions, 'connectString'> & {
        /**
         * Starts a ZooKeeper server in this process, for development and tests. It stores nothing on disk. If it is not
         * false, `connectString` is not used: `embedded: process.env.NODE_ENV === 'development'`. Default false.
         */
        embedded?: boolean | EmbeddedZooKeeperOptions | undefined;
      })
    | { connectString?: undefined; embedded: true | EmbeddedZooKeeperOptions }
  );

export const ZK_RULES: Rules<ZkModuleOptions> = {
  ...CLIENT_RULES,
  ...uncheckedRules('defaults', 'elections', 'participantId', 'warnAfter', 'embedded'),
  lazyConnection: BOOLEAN,
  shutdownTimeout: milliseconds(0),
  logLeases: BOOLEAN,
  mapError: FUNCTION,
};

/**
 * Options that `forRoot` and `forRootAsync` take besides those of the connection.
 *
 * @publicApi
 */
export interface ZkModuleExtras {
  /**
   * Name of the connection, for applications with several; see {@link getLockServiceToken} and the decorators' `connection`.
   * Default: the connection has no name.
   */
  name?: string | undefined;
  /** False makes the connection visible only to modules that import this one. Default true. */
  isGlobal?: boolean | undefined;
}

/**
 * A provider that creates the options, for `useClass` and `useExisting`.
 *
 * @publicApi
 */
export interface ZkOptionsFactory {
  /** Called once, when the connection is created. */
  createZkOptions(): Promise<ZkModuleOptions> | ZkModuleOptions;
}

/**
 * Options of `forRootAsync`: how to create the connection's options, and what must be known before.
 *
 * @publicApi
 */
export interface ZkModuleAsyncOptions extends ZkModuleExtras {
  /** Modules that export the providers of `inject`. Default: none, which is enough for global modules. */
  imports?: ConfigurableModuleAsyncOptions<ZkModuleOptions>['imports'] | undefined;
  /** The providers that `useFactory` receives as its arguments, in this order. Default: none. */
  inject?: ConfigurableModuleAsyncOptions<ZkModuleOptions>['inject'] | undefined;
  /**
   * Returns the options, or a promise of them. Pass exactly one of `useFactory`, `useClass` and `useExisting`.
   * Default: none.
   */
  useFactory?: ConfigurableModuleAsyncOptions<ZkModuleOptions>['useFactory'] | undefined;
  /** A class that Nest creates. Its `createZkOptions` returns the options. Default: none. */
  useClass?: Type<ZkOptionsFactory> | undefined;
  /** A provider of one of the `imports`. Its `createZkOptions` returns the options. Default: none. */
  useExisting?: Type<ZkOptionsFactory> | undefined;
  /** Providers of Nest's `provideInjectionTokensFrom`, which `inject` and `useClass` may use. Default: none. */
  provideInjectionTokensFrom?:
    ConfigurableModuleAsyncOptions<ZkModuleOptions>['provideInjectionTokensFrom'] | undefined;
}

/** The checked options with their defaults. ZkClient checks those in `client`. */
export interface ZkSettings {
  readonly client: Omit<ZkClientOptions, 'connectString'> & { connectString?: string | undefined };
  readonly embedded: EmbeddedZooKeeperOptions | undefined;
  readonly defaults: LeaseDefaults;
  readonly elections: ReadonlyMap<string, ElectionOptions>;
  readonly participantId: string | undefined;
  readonly lazyConnection: boolean;
  readonly shutdownTimeout: number;
  readonly warnAfter: Required<WarnAfter>;
  readonly logLeases: boolean;
  readonly mapError: ErrorMapping | undefined;
}

export function settingsOf(options: ZkModuleOptions): ZkSettings {
  checkOptions(options, ZK_RULES, 'options of ZkModule');
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
  if (participantId !== undefined) checkKey(participantId, 'participantId');
  return {
    client,
    embedded: embeddedOptions(embedded, client),
    defaults,
    elections: electionsByName(elections),
    participantId,
    lazyConnection,
    shutdownTimeout,
    warnAfter: overdueLimits(warnAfter),
    logLeases,
    mapError,
  };
}

function overdueLimits(warnAfter: WarnAfter): Required<WarnAfter> {
  const limit = rule(
    'more than 0 milliseconds, or Infinity',
    (value: unknown) => typeof value === 'number' && value > 0,
  );
  const named = (option: string) => `warnAfter.${option}`;
  checkOptions(warnAfter, { wait: limit, hold: limit }, 'warnAfter', named);
  const { wait = DEFAULT_WARN_AFTER, hold = DEFAULT_WARN_AFTER } = warnAfter;
  return { wait, hold };
}

function embeddedOptions(
  embedded: unknown,
  { tls, sasl }: ZkSettings['client'],
): EmbeddedZooKeeperOptions | undefined {
  if (embedded === undefined || embedded === false) return undefined;
  if (embedded !== true && (typeof embedded !== 'object' || embedded === null)) {
    throw new BadOptionError('embedded', embedded, "true, or the embedded server's options");
  }
  if (tls !== undefined) {
    throw new BadOptionError(
      'tls',
      withheld(tls),
      'left out with embedded, whose server does not support TLS',
    );
  }
  if (sasl !== undefined) {
    const expected = 'left out with embedded, whose server does not support SASL';
    throw new BadOptionError('sasl', withheld(sasl), expected);
  }
  return embedded === true ? {} : embedded;
}

/** @throws BadOptionError if there is none: the environment variable that it comes from may not be set */
export function requireConnectString({ client }: ZkSettings, name: string): string {
  const { connectString } = client;
  if (connectString) return connectString;
  const message = `connectString of the ZkModule connection ${JSON.stringify(name)} is ${JSON.stringify(connectString)}: pass hosts as in 'zk1:2181,zk2:2181' (is the environment variable set?), or embedded: true for development`;
  throw new BadOptionError('connectString', connectString, { message });
}
