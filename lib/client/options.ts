import { parseConnectString, type Host } from './connect-string.js';
import { BadOptionError } from './errors.js';
import { toRetryFunction, type RetryFunction, type RetryPolicy } from './retry.js';
import { checkTls, type TlsOptions } from './transport/tls.js';
import { checkTransport, type TransportName } from './transport/choose-transport.js';
import type { Acl, Auth } from './types.js';
import {
  checkAcl,
  checkAuth,
  checkMilliseconds,
  checkNames,
  checkPath,
  isRecord,
} from './validation.js';

/**
 * Options of a ZkClient. Every one is checked when the client is made; an unknown name is an error.
 *
 * @publicApi
 */
export interface ZkClientOptions {
  /**
   * The ensemble's servers, as in `'zk1:2181,zk2:2181,[2001:db8::1]:2181/chroot'`. The port defaults to
   * 2181. Names are resolved anew for each connection. Below a chroot every path is relative to it.
   */
  connectString: string;
  /**
   * After how long without a sign of life the ensemble ends the session, milliseconds; default 30,000.
   * The servers may grant less or more (between 2 and 20 of their ticks, unless configured otherwise).
   * Locks of a crashed process become free after this time; a client that hears from no server gives
   * up its locks after three quarters of it.
   */
  sessionTimeout?: number;
  /** How long one attempt to connect to one address may take, milliseconds; default 5,000. */
  connectTimeout?: number;
  /**
   * Where the recipes keep their znodes: `'shop'` and `'/shop'` are the same. Default: none, the root.
   * Operations of the client itself take paths as they are.
   */
  namespace?: string;
  /** Credentials, presented on every connection. Default: none. */
  auth?: Auth[];
  /** That of every directory that the client makes for its recipes. Default: ZooKeeper's open ACL. */
  acl?: Acl[];
  /** How trouble with the connection is met; default `{ type: 'exponential' }`. */
  retry?: RetryPolicy;
  /**
   * When leases and leadership are given up. `'session'` (default): when the session is over or this
   * client can no longer vouch for it. `'standard'`: already when the connection is away, as Curator's
   * StandardConnectionStateErrorPolicy does.
   */
  policy?: ConnectionPolicy;
  /** What carries the sessions. Default: native where the npm package `zookeeper` loads, else wire. */
  transport?: TransportName;
  /**
   * Encrypts the connections: what Node's `tls.connect` takes, such as `ca`, and `cert` and `key` for an
   * ensemble that asks for them. `{}` trusts Node's own authorities. The wire transport alone can.
   */
  tls?: TlsOptions;
}

/**
 * See {@link ZkClientOptions.policy}.
 *
 * @publicApi
 */
export type ConnectionPolicy = 'session' | 'standard';

export interface NormalizedOptions {
  readonly hosts: readonly Host[];
  readonly chroot: string;
  readonly sessionTimeout: number;
  readonly connectTimeout: number;
  readonly namespace: string;
  readonly digests: readonly string[];
  readonly acl: readonly Acl[] | undefined;
  readonly retry: RetryFunction;
  readonly policy: ConnectionPolicy;
  readonly transport: TransportName | undefined;
  readonly tls: TlsOptions | undefined;
}

const NAMES: Readonly<Record<keyof ZkClientOptions, true>> = {
  connectString: true,
  sessionTimeout: true,
  connectTimeout: true,
  namespace: true,
  auth: true,
  acl: true,
  retry: true,
  policy: true,
  transport: true,
  tls: true,
};

export const CLIENT_OPTIONS: readonly string[] = Object.keys(NAMES);

/** @throws BadOptionError */
export function normalizeOptions(options: unknown): NormalizedOptions {
  if (!isRecord(options)) throw new BadOptionError('options', options, 'an object of options');
  checkNames(options, CLIENT_OPTIONS);
  const { sessionTimeout = 30_000, connectTimeout = 5000, auth = [], policy = 'session' } = options;
  if (policy !== 'session' && policy !== 'standard') {
    throw new BadOptionError('policy', policy, "'session' or 'standard'");
  }
  return {
    ...parseConnectString(options.connectString),
    sessionTimeout: Math.round(checkMilliseconds(sessionTimeout, 'sessionTimeout')),
    connectTimeout: checkMilliseconds(connectTimeout, 'connectTimeout'),
    namespace: normalizeNamespace(options.namespace),
    digests: checkAuth(auth).map(({ user, password }) => `${user}:${password}`),
    acl: options.acl === undefined ? undefined : checkAcl(options.acl),
    retry: toRetryFunction(options.retry),
    policy,
    ...checkTransportOptions(options),
  };
}

function checkTransportOptions({ transport, tls }: Record<string, unknown>) {
  if (transport === 'native' && tls !== undefined) {
    throw new BadOptionError('transport', transport, "'wire' with tls, which native cannot do");
  }
  return {
    transport: transport === undefined ? undefined : checkTransport(transport),
    tls: tls === undefined ? undefined : checkTls(tls),
  };
}

function normalizeNamespace(namespace: unknown): string {
  if (namespace === undefined || namespace === '' || namespace === '/') return '';
  if (typeof namespace !== 'string') {
    throw new BadOptionError('namespace', namespace, "a znode path such as 'shop'");
  }
  return checkPath(namespace.startsWith('/') ? namespace : `/${namespace}`, 'namespace');
}
