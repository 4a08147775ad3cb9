import { type Command, InvalidArgumentError, Option } from 'commander';
import { BadOptionError, checkPath, foreignText, type ZkClient } from '../client/index.js';
import { revoke } from '../recipes/index.js';
import {
  addConnectionOptions,
  clientOptionsOf,
  type ConnectionOptions,
  withClient,
} from './connection.js';
import { readDuration } from './durations.js';
import { ExitCode, Failure, onStopSignal } from './exit.js';
import { toJson, warn } from './output.js';
import {
  type LockState,
  MAX_DEPTH,
  MAX_ZNODES,
  type Scan,
  scan,
  type ScanOptions,
} from './scan.js';
import { tree } from './tree.js';
import { watch } from './watch.js';

type Kind = ScanOptions['kinds'][number];

interface InspectOptions extends ConnectionOptions {
  readonly path?: string;
  readonly json?: boolean;
}

interface RevokeOptions extends ConnectionOptions {
  readonly participant?: string;
  readonly json?: boolean;
}

/** Milliseconds. */
const MIN_EVERY = 100;
/** The greatest number of paths in a message. */
const MAX_PATHS = 5;

/** Adds `locks`, `leaders`, `watch` and `revoke`. */
export function addInspectCommands(program: Command): void {
  const everywhere = 'in all namespaces, unless --namespace or --path is given';
  const locks = program
    .command('locks')
    .summary('list the holders and waiters of locks and semaphores')
    .description(`Lists the holders and waiters of each lock and semaphore, ${everywhere}.`)
    .addOption(pathOption('only the lock at this znode and the locks below it'))
    .option('--json', 'print one line of JSON for each lock')
    .action((options: InspectOptions) => list(options, 'lock'));
  const leaders = program
    .command('leaders')
    .summary('list the leader and the candidates of elections')
    .description(`Lists the leader and the candidates of each election, ${everywhere}.`)
    .addOption(
      pathOption(
        'only the election at this znode and the elections below it. Outside of a namespace, give the exact znode of a LeaderSelector: it looks like a mutex',
      ),
    )
    .option('--json', 'print one line of JSON for each election')
    .action((options: InspectOptions) => list(options, 'election'));
  const watching = program
    .command('watch')
    .summary('show locks and elections, and what changes')
    .description(
      `Shows the locks and elections on a terminal until Ctrl-C, ${everywhere}. A pipe gets a line for each event: granted, released, lost, waiting, gave-up, elected, resigned. A lock that is acquired and released between two reads causes no event.`,
    )
    .addOption(pathOption('only the locks and elections at this znode and below it'))
    .option('--json', 'print one line of JSON for each event')
    .option(
      '--every <duration>',
      'the time between two reads, at least 100ms (default: 1s)',
      readEvery,
    )
    .action(watchAll);
  const revoking = program
    .command('revoke')
    .summary('ask the holders of a lock to release it')
    .description('Asks the holders of a lock to release it. A holder may ignore the request.')
    .argument('<key|path>', 'the key, or the znode of the lock if it starts with a slash', readKey)
    .option('--participant <znode>', 'only this holder or waiter, as in locks --json', readPath)
    .option('--json', 'print the znodes of the holders as JSON')
    .action(revokeLock);
  for (const command of [locks, leaders, watching, revoking]) addConnectionOptions(command);
}

/** Prints the locks or elections. */
async function list(options: InspectOptions, kind: Kind): Promise<void> {
  await withClient(clientOptionsOf(options), undefined, async (client) => {
    const read = await scan(client, scanOptions(options, [kind]));
    const { states } = read;
    await checkExists(client, read, options);
    const count = states.length;
    if (options.json) {
      process.stdout.write(states.map((each) => `${toJson(each)}\n`).join(''));
      if (count === 0) warn(noneIn(read, kind));
    } else if (count === 0) {
      process.stdout.write(`${noneIn(read, kind)}\n`);
    } else {
      const columns = process.stdout.isTTY ? process.stdout.columns || 80 : Infinity;
      const total = `${count} ${kind}${count === 1 ? '' : 's'} under ${describeRoots(read)}`;
      process.stdout.write(`${[...tree(states, columns), total].join('\n')}\n`);
    }
    const omissions = describeOmissions(read);
    if (omissions) throw new Failure(omissions);
  });
}

async function watchAll(options: InspectOptions & { readonly every?: number }): Promise<void> {
  const { json = false, every = 1000 } = options;
  const stopping = new AbortController();
  await withClient(clientOptionsOf(options), undefined, async (client) => {
    onStopSignal(() => stopping.abort());
    const watchOptions = { ...scanOptions(options, ['lock', 'election']), every, json };
    await watch(client, watchOptions, stopping.signal, (read) =>
      [`locks and elections under ${describeRoots(read)}`, describeOmissions(read)]
        .filter(Boolean)
        .join('; '),
    );
  });
  // A reader that has stopped to read would keep the process alive.
  if (process.stdout.writableNeedDrain) process.exit(ExitCode.ok);
}

async function revokeLock(subject: string, options: RevokeOptions): Promise<void> {
  const { participant, json } = options;
  await withClient(clientOptionsOf(options), undefined, async (client) => {
    const lock = await findLock(client, subject, options);
    if (lock.problem) throw new Failure(lock.problem);
    const members = participant ? [...lock.holders, ...lock.waiters] : lock.holders;
    const asked = members.filter(({ path }) => !participant || path === participant);
    if (asked.length === 0) {
      throw new Failure(
        participant
          ? `--participant: ${participant} does not hold or wait for ${lock.path}`
          : `nobody holds ${lock.path}`,
      );
    }
    await Promise.all(asked.map((each) => revoke(client, each)));
    const paths = asked.map(({ path }) => path);
    const text = json
      ? toJson(paths)
      : paths.map((path) => `asked ${foreignText(path)}`).join('\n');
    process.stdout.write(`${text}\n`);
  });
}

/** Resolves to the lock with a path, or the only lock with a key. */
async function findLock(
  client: ZkClient,
  subject: string,
  options: RevokeOptions,
): Promise<LockState> {
  const path = subject.startsWith('/') ? subject : undefined;
  const read = await scan(client, scanOptions(path ? { path } : options, ['lock']));
  const found = read.states.filter((lock) =>
    path ? lock.path === path : lock.key === subject && lock.namespace !== undefined,
  );
  const omissions = describeOmissions(read);
  if (!path && omissions)
    throw new Failure(`${omissions}, so other locks may have the key ${JSON.stringify(subject)}`);
  await checkExists(client, read, path ? { path } : options);
  const [lock] = found;
  if (!lock)
    throw new Failure(
      `nobody holds ${path ?? JSON.stringify(subject)} under ${describeRoots(read)}`,
    );
  if (found.length > 1) {
    const paths = pathList(found.map((each) => each.path));
    throw new Failure(
      `${found.length} locks have the key ${JSON.stringify(subject)}: ${paths}. Name one with --namespace, or give its path in place of the key`,
    );
  }
  return lock;
}

function scanOptions({ namespace, path }: InspectOptions, kinds: readonly Kind[]): ScanOptions {
  return { kinds, path, inNamespace: namespace !== undefined && path === undefined };
}

/** @throws Failure if the znode of an option does not exist */
async function checkExists(client: ZkClient, read: Scan, options: InspectOptions): Promise<void> {
  if (read.missing.length < read.roots.length) return;
  const { namespace, path } = options;
  if (path !== undefined) throw new Failure(`the znode ${path} does not exist`);
  if (namespace === undefined) throw new Failure('the chroot of --zookeeper does not exist');
  if (await client.exists(client.namespace || '/')) return;
  throw new Failure(
    `--namespace ${namespace}: the znode ${client.namespace} does not exist. ZooKeeper deletes it while it is not used`,
  );
}

function noneIn(read: Scan, kind: Kind): string {
  const what =
    kind === 'lock'
      ? 'no lock has a holder or a waiter under'
      : 'no election has a candidate under';
  return `${what} ${describeRoots(read)}${describeOmissions(read) ? ', as far as it was read' : ''}`;
}

/** Returns the znodes where a scan started, and which of them do not exist. */
function describeRoots({ roots, missing }: Scan): string {
  const parts = roots.map((root) => {
    const path = foreignText(root);
    return missing.includes(root) ? `${path}, which does not exist` : path;
  });
  return parts.join(', and ');
}

/** Returns what a scan has left out, or undefined. */
function describeOmissions(read: Scan): string | undefined {
  const { unreadable, truncated } = read;
  const omissions = [
    ...(unreadable.length > 0
      ? [
          `an ACL denies read access to ${pathList(unreadable)}; pass credentials with ZOOKEEPER_AUTH`,
        ]
      : []),
    ...(truncated
      ? [
          `only a part of the znodes under ${describeRoots(read)} was read: at most ${MAX_ZNODES} znodes and ${MAX_DEPTH} levels. Name a namespace with --namespace, or a znode further down with --path`,
        ]
      : []),
  ];
  return omissions.length > 0 ? omissions.join('; ') : undefined;
}

function pathList(paths: readonly string[]): string {
  const shown = paths
    .slice(0, MAX_PATHS)
    .map((path) => foreignText(path))
    .join(', ');
  const more = paths.length - MAX_PATHS;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

function pathOption(description: string): Option {
  return new Option('--path <znode>', description).argParser(readPath).conflicts('namespace');
}

function readPath(text: string): string {
  if (!/^\/./.test(text)) {
    throw new InvalidArgumentError('It must be the path of a znode below the root.');
  }
  try {
    return checkPath(text, 'it');
  } catch (error) {
    throw new InvalidArgumentError((error as BadOptionError).message);
  }
}

function readKey(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must be a key or a path.');
  return text.startsWith('/') ? readPath(text) : text;
}

function readEvery(text: string): number {
  const every = readDuration(text);
  if (every < MIN_EVERY) throw new InvalidArgumentError('It must be at least 100ms.');
  return every;
}
