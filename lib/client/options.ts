import { checkAcl, checkAuth } from './access-control.js';
import { parseConnectString } from './hosts.js';
import { BadOptionError } from './errors.js';
import { toRetryFunction, type RetryPolicy } from './retry.js';
import { checkSessionFile } from './session-file.js';
import { checkSasl, type SaslOptions } from './transport/sasl/options.js';
import { checkTls, type TlsOptions } from './transport/tls.js';
import type { Acl, Auth } from './types.js';
import { BOOLEAN, milliseconds, oneOf, type Rules, uncheckedRules } from './option-rules.js';
import { checkOptions, checkPath } from './validation.js';

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
