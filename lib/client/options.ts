import { parseConnectString } from './hosts.js';
import { BadOptionError } from './errors.js';
import { checkSessionFile } from './session-file.js';
import { checkSasl, type SaslOptions } from './transport/sasl/options.js';
import { checkTls, type TlsOptions } from './transport/tls.js';
import type { Acl, Auth } from './types.js';
import {
  BOOLEAN,
  checkAcl,
  checkAuth,
  checkMilliseconds,
  checkOptions,
  checkPath,
  isRecord,
  milliseconds,
  oneOf,
  type Rules,
  uncheckedRules,
} from './validation.js';

/**
 * Options of a ZkClient. The constructor checks them; an unknown name is an error.
 *
 * @publicApi
 */
export interface ZkClientOptions {
  /**
   * The servers of the ensemble, as in `'zk1:2181,zk2:2181,[2001:db8::1]:2181/chroot'`. The default port is 2181.
   * Names are resolved again for each connection. With a chroot, all paths are relative to it. The type allows
   * `undefined`, so that you can pass an environment variable. At run time a missing value is a `BadOptionError`.
   */
  connectString: string | undefined;
  /**
   * The time after which the ensemble expires the session of a silent client, milliseconds; default 30,000. The servers
   * may grant a shorter or longer one (by default between 2 and 20 of their ticks). The locks of a crashed process are
   * released after this time. A client that gets no reply gives up its locks after three quarters of it.
   */
  sessionTimeout?: number | undefined;
  /** The limit for one attempt to connect to one address, milliseconds; default 5,000. */
  connectTimeout?: number | undefined;
  /**
   * The parent of the recipes' znodes: `'shop'` and `'/shop'` are equivalent. Default: the root. The
   * operations of the client ignore it.
   */
  namespace?: string | undefined;
  /** Credentials that are sent on each connection. Default: none. */
  auth?: Auth[] | undefined;
  /**
   * Authenticates each connection with SASL, before anything else is sent on it: `mechanism: 'DIGEST-MD5'` with `user` and
   * `password`, or `mechanism: 'GSSAPI'` with a Kerberos ticket. Not with `transport: 'native'`. Default: no SASL.
   */
  sasl?: SaslOptions | undefined;
  /**
   * The ACL of each znode that the client creates, those of recipes included, from its creation. Not with `transport: 'native'`.
   * Default: ZooKeeper's open ACL.
   */
  acl?: Acl[] | undefined;
  /** How connection failures are retried; default `{ type: 'exponential' }`. */
  retry?: RetryPolicy | undefined;
  /**
   * When leases and leadership are given up. `'session'`: when the session is over or may be. `'standard'`: as soon as the
   * connection is lost, like Curator's StandardConnectionStateErrorPolicy. Default `'session'`.
   */
  policy?: ConnectionPolicy | undefined;
  /**
   * The implementation of the connections. `'native'` needs the npm package `zookeeper`, and has neither transactions nor
   * persistent watches. Default `'wire'`.
   */
  transport?: TransportName | undefined;
  /**
   * Encrypts the connections. The options of Node's `tls.connect`, such as `ca`, and `cert` and `key` if the
   * ensemble requires a client certificate. `{}` trusts Node's default authorities. Not with `transport: 'native'`.
   * Default: no encryption.
   */
  tls?: TlsOptions | undefined;
  /**
   * Whether to use RaftKeeper, whose transaction ids may fall, and ClickHouse Keeper before 23.6, which the client cannot
   * distinguish from it. Locks exclude each other on RaftKeeper, but a fencing token can be lower than an earlier one, so
   * the guarded resource may refuse the current holder or accept an earlier one. Default false: the connection is refused
   * with an UnsafeServerError.
   */
  allowUnsafeFencing?: boolean | undefined;
  /**
   * For development: a file that keeps the id and the password of the session. At its start, the client ends the session
   * that a previous process left in the file, so that its locks are free at once. Only one process at a time may use the
   * file, because the next one may end the session of the first. An orderly close deletes the file. It has no
   * effect on ClickHouse Keeper, which resumes no session. Default: none.
   */
  sessionFile?: string | undefined;
}

/**
 * See {@link ZkClientOptions.policy}.
 *
 * @publicApi
 */
export type ConnectionPolicy = 'session' | 'standard';

/**
 * The implementation of a client's connections: `'wire'`, ZooKeeper's protocol in TypeScript, or `'native'`, ZooKeeper's C
 * client, which needs the npm package `zookeeper`.
 *
 * @publicApi
 */
export type TransportName = 'wire' | 'native';

/**
 * How the client retries after a connection failure: an object, or a function (see `RetryFunction`).
 * It does not apply to waiting for a lock, which the option `wait` of the lock limits.
 *
 * Counterpart of Curator's RetryPolicy (ExponentialBackoffRetry, RetryNTimes, RetryForever).
 *
 * @publicApi
 */
export type RetryPolicy =
  | {
      /** The delay is random between 0 and a limit that doubles with each attempt ("full jitter"). */
      type: 'exponential';
      /** The first limit, milliseconds; default 100. */
      baseDelay?: number | undefined;
      /** The maximum of the limit, milliseconds; default 3,000, or `baseDelay` if that is more. */
      maxDelay?: number | undefined;
      /**
       * The number of attempts after the first one. The default waits for about 9 seconds on average, and 18 at most.
       * Default 10.
       */
      maxRetries?: number | undefined;
    }
  | {
      type: 'fixed';
      /** The time before each attempt, milliseconds. */
      delay: number;
      /** The number of attempts after the first one; default 10. */
      maxRetries?: number | undefined;
    }
  | {
      type: 'forever';
      /** The time before each attempt, milliseconds. */
      delay: number;
    }
  | { type: 'none' }
  | RetryFunction;

/**
 * A custom retry policy. `attempt` is the number of failed attempts, from 1; `elapsedMs` is the time since the first
 * began, milliseconds. Returns the delay before the next attempt, milliseconds, or undefined to give up.
 *
 * @publicApi
 */
export type RetryFunction = (attempt: number, elapsedMs: number) => number | undefined;

export type NormalizedOptions = Readonly<ReturnType<typeof normalizeOptions>>;

export const CLIENT_RULES: Rules<ZkClientOptions> = {
  ...uncheckedRules('connectString', 'namespace', 'retry', 'sessionFile'),
  // Their values may hold secrets.
  ...uncheckedRules('auth', 'sasl', 'acl', 'tls'),
  sessionTimeout: milliseconds(),
  connectTimeout: milliseconds(),
  policy: oneOf('session', 'standard'),
  transport: oneOf('wire', 'native'),
  allowUnsafeFencing: BOOLEAN,
};

/** @throws BadOptionError */
export function normalizeOptions(given: unknown) {
  const options = checkOptions(given as ZkClientOptions, CLIENT_RULES);
  const { sessionTimeout = 30_000, connectTimeout = 5000, auth = [], policy = 'session' } = options;
  const { transport = 'wire', tls, sasl, acl, allowUnsafeFencing = false, sessionFile } = options;
  for (const [name, value] of Object.entries({ tls, sasl, acl })) {
    if (transport !== 'native' || value === undefined) continue;
    const expected = `'wire' with ${name}, which native does not support`;
    throw new BadOptionError('transport', transport, expected);
  }
  return {
    ...parseConnectString(options.connectString),
    sessionTimeout: Math.round(sessionTimeout),
    connectTimeout,
    namespace: normalizeNamespace(options.namespace),
    authInfo: checkAuth(auth).map(({ user, password }) => `${user}:${password}`),
    acl: acl === undefined ? undefined : checkAcl(acl),
    retry: toRetryFunction(options.retry),
    policy,
    transport,
    tls: tls === undefined ? undefined : checkTls(tls),
    sasl: sasl === undefined ? undefined : checkSasl(sasl),
    allowUnsafeFencing,
    sessionFile: sessionFile === undefined ? undefined : checkSessionFile(sessionFile),
  };
}

function normalizeNamespace(namespace: unknown): string {
  if (namespace === undefined || namespace === '' || namespace === '/') return '';
  if (typeof namespace !== 'string') {
    throw new BadOptionError('namespace', namespace, "a znode path such as 'shop'");
  }
  return checkPath(namespace.startsWith('/') ? namespace : `/${namespace}`, 'namespace');
}

const FIELDS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['exponential', ['baseDelay', 'maxDelay', 'maxRetries']],
  ['fixed', ['delay', 'maxRetries']],
  ['forever', ['delay']],
  ['none', []],
]);

/**
 * Converts the option `retry` to a function. The delays that a custom function returns are checked at each call.
 *
 * @throws BadOptionError
 */
export function toRetryFunction(
  policy: unknown = { type: 'exponential' },
  random: () => number = Math.random,
): RetryFunction {
  if (typeof policy === 'function') {
    return (attempt, elapsed) => {
      const delay: unknown = policy(attempt, elapsed);
      return delay === undefined ? undefined : checkMilliseconds(delay, 'retry()', 0);
    };
  }
  if (!isRecord(policy)) {
    throw new BadOptionError('retry', policy, 'a retry policy { type, … } or a function');
  }
  const { type, ...rest } = policy;
  const fields = FIELDS.get(type);
  if (!fields) {
    throw new BadOptionError('retry.type', type, `one of ${[...FIELDS.keys()].join(', ')}`);
  }
  for (const [name, value] of Object.entries(rest)) {
    if (value === undefined || fields.includes(name)) continue;
    throw new BadOptionError(`retry.${name}`, value, `left out for the type ${String(type)}`);
  }
  const { baseDelay = 100, maxRetries = 10, delay } = rest;
  if (!Number.isSafeInteger(maxRetries) || (maxRetries as number) < 0) {
    throw new BadOptionError('retry.maxRetries', maxRetries, 'a whole number of 0 or more');
  }
  const isOver = (attempt: number) => attempt > (maxRetries as number);

  switch (type) {
    case 'exponential': {
      const base = checkMilliseconds(baseDelay, 'retry.baseDelay');
      const { maxDelay = Math.max(3000, base) } = rest;
      const max = checkMilliseconds(maxDelay, 'retry.maxDelay');
      return (attempt) =>
        isOver(attempt) ? undefined : random() * Math.min(max, base * 2 ** (attempt - 1));
    }
    case 'fixed': {
      const fixed = checkMilliseconds(delay, 'retry.delay', 0);
      return (attempt) => (isOver(attempt) ? undefined : fixed);
    }
    case 'forever': {
      const fixed = checkMilliseconds(delay, 'retry.delay');
      return () => fixed;
    }
    default:
      return () => undefined;
  }
}
