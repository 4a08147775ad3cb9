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
export type Command = (typeof COMMANDS)[number];

export interface Arguments {
  readonly command: Command;
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

const ONLY_OF = { participant: 'revoke', every: 'watch' } as const;
const LEAST_EVERY = 100;

/** Returns undefined for `--help`. @throws UsageError */
export function readArguments(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Arguments | undefined {
  const { values, positionals } = parsed(args);
  if (values.help) return undefined;
  const [command, subject, ...more] = positionals;
  if (!isCommand(command)) {
    throw new UsageError(`${command ? `unknown command ${command}` : 'a command is missing'}`);
  }
  const needed = command === 'revoke';
  if (needed && !subject) throw new UsageError('revoke needs the key or the path of a lock');
  const extra = needed ? more[0] : subject;
  if (extra !== undefined) throw new UsageError(`unexpected argument ${extra}`);
  for (const [option, only] of Object.entries(ONLY_OF)) {
    if (values[option as keyof typeof ONLY_OF] !== undefined && command !== only) {
      throw new UsageError(`--${option} is an option of ${only}`);
    }
  }
  if (values.path !== undefined && needed) {
    throw new UsageError('revoke takes the path of a lock as its argument');
  }
  const { path, participant, json = false } = values;
  for (const [option, znode] of Object.entries({ path, participant })) {
    if (znode !== undefined && !/^\/./.test(znode)) {
      throw new UsageError(`--${option} must be the path of a znode below the root`);
    }
  }
  const every = Number(values.every ?? 1000);
  if (!(every >= LEAST_EVERY && every < 2 ** 31)) {
    throw new UsageError(`--every must be milliseconds, from ${LEAST_EVERY}`);
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
      // Needs no native build, and is the only transport with TLS.
      transport: 'wire',
      retry: { type: 'fixed', delay: 500, maxAttempts: 3 },
    },
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function isCommand(command: string | undefined): command is Command {
  return (COMMANDS as readonly (string | undefined)[]).includes(command);
}

/** Its errors do not contain the credentials, because errors go to logs. */
function readAuth(auth: string): Auth {
  const [, user, password] = /^digest:([^:]+):(.+)$/s.exec(auth) ?? [];
  if (user === undefined || password === undefined) {
    throw new UsageError('the credentials must be digest:user:password');
  }
  return { scheme: 'digest', user, password };
}

function readTls({
  tls,
  ...files
}: {
  tls?: boolean;
  ca?: string;
  cert?: string;
  key?: string;
}): TlsOptions | undefined {
  const given = (['ca', 'cert', 'key'] as const).filter((name) => files[name] !== undefined);
  if (!tls && given.length === 0) return undefined;
  return Object.fromEntries(given.map((name) => [name, readPem(name, files[name]!)]));
}

function readPem(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--${option}: ${(error as Error).message}`);
  }
}
