import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Auth, TlsOptions, ZkClientOptions } from '../client/index.js';

export const USAGE = `Usage: nestjs-zookeeper <command> --zookeeper host:port[,host:port…][/chroot] [options]

Commands
  locks                 list the holders and waiters of each lock and semaphore
  leaders               list the leader and the participants of each election
  watch                 list both again when they change, until Ctrl-C
  revoke <key | path>   ask the holders of a lock to release it; does not force them.
                        An argument that starts with a slash is a znode, any other a key

Options
  --zookeeper <servers> the ensemble; default: the environment variable ZOOKEEPER
  --namespace <name>    as the application's option namespace; default: none
  --path <znode>        the lock at this znode, or the locks below it, instead of the namespace's
  --json                JSON output: an array; with watch one object per line
  --every <ms>          watch: milliseconds between two reads, at least 100; default 1000
  --participant <znode> revoke: only this holder or waiter; its path as in locks --json
  --auth <scheme:user:password>
                        credentials, such as digest:ops:secret. Other users of this machine can read
                        the command line; the environment variable ZOOKEEPER_AUTH is safer
  --tls                 encrypt the connection; trusts Node's certificate authorities
  --ca, --cert, --key <file>
                        PEM files: the authority; certificate and key of this client
  --help                show this text

Exit codes: 0 success, 1 failure, 2 invalid command line.
`;

/** The command line is invalid, or a file that it names is not readable. */
export class UsageError extends Error {}

const COMMANDS = ['locks', 'leaders', 'watch', 'revoke'] as const;

export interface Arguments {
  readonly command: (typeof COMMANDS)[number];
  /** The key or path after `revoke`. */
  readonly subject: string | undefined;
  readonly path: string | undefined;
  readonly participant: string | undefined;
  readonly json: boolean;
  readonly every: number;
  readonly client: ZkClientOptions;
}

const OPTIONS = {
  zookeeper: { type: 'string' },
  namespace: { type: 'string' },
  path: { type: 'string' },
  participant: { type: 'string' },
  json: { type: 'boolean' },
  every: { type: 'string' },
  auth: { type: 'string' },
  tls: { type: 'boolean' },
  ca: { type: 'string' },
  cert: { type: 'string' },
  key: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** Milliseconds. */
const MIN_EVERY = 100;

/**
 * Parses the command line. Returns undefined for `--help`.
 *
 * @throws UsageError
 */
export function readArguments(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Arguments | undefined {
  const { values, positionals } = parse(args);
  if (values.help) return undefined;
  const [name, subject, ...more] = positionals;
  const command = COMMANDS.find((each) => each === name);
  if (!command) throw new UsageError(name ? `unknown command ${name}` : 'a command is missing');
  const { path, participant, json = false } = values;
  if (command === 'revoke') {
    if (!subject) throw new UsageError('revoke needs the key or the path of a lock');
    if (path !== undefined) throw new UsageError('revoke takes the path of a lock as its argument');
  } else if (participant !== undefined) {
    throw new UsageError('--participant is an option of revoke');
  }
  const extra = command === 'revoke' ? more[0] : subject;
  if (extra !== undefined) throw new UsageError(`unexpected argument ${extra}`);
  if (values.every !== undefined && command !== 'watch') {
    throw new UsageError('--every is an option of watch');
  }
  for (const [option, znode] of Object.entries({ path, participant })) {
    if (znode !== undefined && !/^\/./.test(znode)) {
      throw new UsageError(`--${option} must be the path of a znode below the root`);
    }
  }
  const every = Number(values.every ?? 1000);
  if (!(every >= MIN_EVERY && every < 2 ** 31)) {
    throw new UsageError(`--every must be milliseconds, from ${MIN_EVERY}`);
  }
  const connectString = values.zookeeper ?? env.ZOOKEEPER;
  if (!connectString) throw new UsageError('--zookeeper is missing: host:port[,host:port…]');
  const auth = values.auth ?? env.ZOOKEEPER_AUTH;
  return {
    command,
    subject,
    path,
    participant,
    json,
    every,
    client: {
      connectString,
      namespace: values.namespace,
      auth: auth ? [readAuth(auth)] : undefined,
      tls: readTls(values),
      // The only transport with TLS. It needs no native code.
      transport: 'wire',
      retry: { type: 'fixed', delay: 500, maxRetries: 3 },
    },
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Reads `digest:user:password`. Errors do not contain the credentials, because errors go to logs. */
function readAuth(auth: string): Auth {
  const [, user, password] = /^digest:([^:]+):(.+)$/s.exec(auth) ?? [];
  if (user === undefined || password === undefined) {
    throw new UsageError('the credentials must be digest:user:password');
  }
  return { scheme: 'digest', user, password };
}

function readTls({
  tls,
  ca,
  cert,
  key,
}: ReturnType<typeof parse>['values']): TlsOptions | undefined {
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
