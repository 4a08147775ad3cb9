import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import {
  abortable,
  type Auth,
  BadOptionError,
  normalizeOptions,
  type TlsOptions,
  ZkClient,
  type ZkClientOptions,
} from '../client/index.js';
import { UsageError } from './exit.js';

/** Milliseconds between two attempts to connect, and the number of attempts after the first one. */
export const RETRY_DELAY = 500;
const MAX_RETRIES = 3;
/** Milliseconds. No further attempt begins later. A server that does not reply ends the first attempt at `connectTimeout`. */
const CONNECT_LIMIT = 4000;

/** Returns whether a first connection is attempted again. Starts the clock. */
export function firstRetries(): (attempt: number) => boolean {
  const deadline = performance.now() + CONNECT_LIMIT;
  return (attempt) => attempt <= MAX_RETRIES && performance.now() < deadline;
}

/** The options of each command that talks to an ensemble. */
export interface ConnectionOptions {
  readonly zookeeper?: string;
  readonly namespace?: string;
  readonly auth?: string;
  readonly tls?: boolean;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** The options of the command line for those of the client. */
const OPTION_NAMES: Readonly<Record<string, string>> = {
  connectString: '--zookeeper',
  namespace: '--namespace',
  sessionTimeout: '--session-timeout',
  tls: '--ca, --cert or --key',
};

/** Adds these options to a command. */
export function addConnectionOptions(command: Command): Command {
  return command
    .optionsGroup('Connection:')
    .option(
      '--zookeeper <servers>',
      'the ensemble, host:port[,host:port…][/chroot]; default: the environment variable ZK_CONNECT_STRING',
    )
    .option('--namespace <name>', "the option `namespace` of the application's ZkModule")
    .option(
      '--auth <credentials>',
      'digest:user:password. Other users of this machine can read the command line; the environment variable ZOOKEEPER_AUTH is safer',
    )
    .option('--tls', "encrypt the connection; trusts Node's certificate authorities")
    .option('--ca <file>', 'PEM file of the authority; implies --tls')
    .option('--cert <file>', 'PEM file of the certificate of this client; implies --tls')
    .option('--key <file>', 'PEM file of the key of this client; implies --tls');
}

/** Returns the options of a client for those of a command and the environment. Errors name those of the command. */
export function clientOptionsOf(
  options: ConnectionOptions,
  more: Pick<ZkClientOptions, 'sessionTimeout' | 'retry'> = {},
): ZkClientOptions {
  const read = { ...readOptions(options), ...more };
  try {
    normalizeOptions(read);
    return read;
  } catch (error) {
    if (!(error instanceof BadOptionError)) throw error;
    const { option, message } = error;
    throw new UsageError(message.replace(option, OPTION_NAMES[option] ?? option));
  }
}

/**
 * Connects a client, and closes it when `use` has settled or the signal aborts: the server then carries out the requests
 * that were sent before it ends the session.
 *
 * @throws the signal's reason
 */
export async function withClient<T>(
  options: ZkClientOptions,
  signal: AbortSignal | undefined,
  use: (client: ZkClient) => Promise<T>,
): Promise<T> {
  let connected = false;
  const mayRetry = firstRetries();
  const retry = (attempt: number) =>
    (connected ? attempt <= MAX_RETRIES : mayRetry(attempt)) ? RETRY_DELAY : undefined;
  const client = new ZkClient({ retry, ...options });
  try {
    await abortable(client.connect(), signal);
    connected = true;
    return await abortable(use(client), signal);
  } finally {
    await client.close();
  }
}

function readOptions(options: ConnectionOptions): ZkClientOptions {
  const { ZK_CONNECT_STRING, ZOOKEEPER } = process.env;
  // ZOOKEEPER is the name in scripts that were written before.
  const connectString = options.zookeeper ?? (ZK_CONNECT_STRING || ZOOKEEPER);
  if (!connectString) {
    throw new UsageError(
      '--zookeeper is missing: host:port[,host:port…], or the environment variable ZK_CONNECT_STRING',
    );
  }
  const auth = options.auth ?? process.env.ZOOKEEPER_AUTH;
  return {
    connectString,
    namespace: options.namespace,
    auth: auth ? [readAuth(auth)] : undefined,
    acl: auth ? [{ scheme: 'auth', id: '', permissions: 'cdrwa' }] : undefined,
    tls: readTls(options),
  };
}

/** Reads `digest:user:password`. Errors do not contain the credentials, because errors go to logs. */
function readAuth(auth: string): Auth {
  const [, user, password] = /^digest:([^:]+):(.+)$/s.exec(auth) ?? [];
  if (user === undefined || password === undefined) {
    throw new UsageError('the credentials must be digest:user:password');
  }
  return { scheme: 'digest', user, password };
}

function readTls({ tls, ca, cert, key }: ConnectionOptions): TlsOptions | undefined {
  const files = Object.entries({ ca, cert, key }).filter(([, file]) => file !== undefined);
  if (!tls && files.length === 0) return undefined;
  return Object.fromEntries(files.map(([name, file]) => [name, readPem(name, file!)]));
}

function readPem(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--${option}: ${(error as Error).message}`);
  }
}
