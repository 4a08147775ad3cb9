import { basename } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { abortable, sleep, type ZkClient } from '../client/index.js';
import {
  type Lease,
  type Lock,
  LockBusyError,
  LockTimeoutError,
  Mutex,
  ReadLock,
  Semaphore,
  WriteLock,
} from '../recipes/index.js';
import { hasEnded } from '../kernel/index.js';
import { lockPath, semaphorePath } from '../services/keys.js';
import { exitAs, type ExitStatus } from './child-process.js';
import { addConnectionOptions } from './connection.js';
import { readDuration, readPositiveDuration } from './durations.js';
import { ExitCode, Failure, UsageError } from './exit.js';
import { note } from './output.js';
import {
  addCommandOptions,
  checkArguments,
  type CommandOptions,
  supervise,
  type Supervisor,
} from './supervisor.js';
import { describeParticipant } from './tree.js';

interface RunOptions extends CommandOptions {
  readonly lock?: string;
  readonly wait?: number;
  readonly semaphore?: number;
  readonly read?: boolean;
  readonly write?: boolean;
  readonly holdAtLeast?: number;
  readonly holdAtMost?: number;
}

/** The options of a command line that was checked. */
type LockOptions = RunOptions & { readonly lock: string };

/** Milliseconds after which a wait for the lock is reported. */
const SILENT_WAIT = 1000;
/** Milliseconds. A message without the holders is better than a late one. */
const READ_LIMIT = 1000;
/** The greatest number of holders in a message. */
const MAX_HOLDERS = 3;

/** Adds the command `run`. */
export function addRunCommand(program: Command): void {
  const command = program
    .command('run')
    .summary('run a command while holding a lock')
    .description('Acquires a lock, runs a command, and releases the lock.')
    .argument('<command...>', 'the command and its arguments, after --')
    .option('--lock <key>', 'the lock, required: a key, or a znode if it starts with a slash')
    .option(
      '--wait <duration>',
      'wait at most this long; 0 does not wait (default: no limit)',
      readDuration,
    )
    .addOption(
      new Option('--semaphore <permits>', 'acquire one of this number of permits')
        .argParser(readPermits)
        .conflicts(['read', 'write']),
    )
    .addOption(new Option('--read', 'share the lock with other readers').conflicts('write'))
    .option('--write', 'exclude readers and writers')
    .option(
      '--hold-at-least <duration>',
      'keep the lock for this long, even if the command ends earlier',
      readDuration,
    )
    .option('--hold-at-most <duration>', 'stop the command after this time', readPositiveDuration)
    .addHelpText(
      'after',
      `
Example: nestjs-zookeeper run --lock nightly --wait 30s -- ./nightly.sh

Exit codes: that of the command, or
  ${ExitCode.noConnection}  the ensemble is not reachable
  ${ExitCode.busy}  the lock is held, and --wait is 0
  ${ExitCode.timedOut}  the lock was not granted within --wait
  ${ExitCode.lost}  the lock was lost, or held for --hold-at-most; the command was stopped`,
    )
    .passThroughOptions()
    .action(async (argv: string[], options: RunOptions) => {
      const lock = checkArguments(argv, options.lock, '--lock <key>');
      const { holdAtLeast = 0, holdAtMost = Infinity } = options;
      if (holdAtLeast > holdAtMost) {
        throw new UsageError('--hold-at-least must not be longer than --hold-at-most');
      }
      exitAs(
        await supervise(options, (...parts) => runLocked(argv, { ...options, lock }, ...parts)),
      );
    });
  addConnectionOptions(addCommandOptions(command));
}

function readPermits(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new InvalidArgumentError('It must be a number from 1 to 999999999.');
  return Number(text);
}

async function runLocked(
  argv: readonly string[],
  options: LockOptions,
  client: ZkClient,
  supervisor: Supervisor,
): Promise<ExitStatus> {
  const lock = lockOf(client, options);
  const lease = await acquire(lock, options, {
    signal: supervisor.cancelled,
    details: { name: basename(argv[0]!) },
  });
  const { holdAtLeast = 0, holdAtMost, semaphore } = options;
  const since = performance.now();
  // With its own option, the library would release the lock at this time, before the command has ended.
  const limit = new AbortController();
  const onLimit = () =>
    limit.abort(new Failure(`${describeLock(lock)} was held for --hold-at-most`));
  const timer = holdAtMost === undefined ? undefined : setTimeout(onLimit, holdAtMost);
  try {
    if (supervisor.stopSignal) return supervisor.stopSignal;
    const env = {
      ZK_LOCK_KEY: lock.key,
      ZK_LOCK_PATH: lock.path,
      // The permits of a semaphore have several holders at a time, so a token does not order them.
      ...(semaphore === undefined && { ZK_FENCING_TOKEN: String(lease.fencingToken) }),
    };
    const status = await supervisor.run(argv, env, lease, limit);
    if (status === undefined) return ExitCode.lost;
    const left = holdAtLeast - (performance.now() - since);
    const signals = [supervisor.cancelled, lease.signal];
    // It rejects only by the signals, which end the hold.
    if (left > 0) await sleep(left, { signals, ref: true }).catch(() => {});
    return status;
  } finally {
    clearTimeout(timer);
    await lease.release();
  }
}

function lockOf(client: ZkClient, { lock: key, semaphore, read, write }: LockOptions): Lock {
  const pathOf = semaphore === undefined ? lockPath : semaphorePath;
  const path = key.startsWith('/') ? key : pathOf(client.namespace, key);
  if (semaphore !== undefined) return new Semaphore(client, path, { key, permits: semaphore });
  const Recipe = read ? ReadLock : write ? WriteLock : Mutex;
  return new Recipe(client, path, { key });
}

async function acquire(
  lock: Lock,
  { wait }: RunOptions,
  options: { signal: AbortSignal; details: { name: string } },
): Promise<Lease> {
  const ended = new AbortController();
  void reportWait(lock, ended.signal);
  try {
    return await lock.acquire({ wait, ...options });
  } catch (error) {
    if (error instanceof LockBusyError) {
      const holders = (await describeHolders(lock)) ?? 'others';
      throw new Failure(
        `${describeLock(lock)} is held by ${holders}, and --wait is 0`,
        ExitCode.busy,
      );
    }
    if (error instanceof LockTimeoutError) {
      const holders = await describeHolders(lock);
      const why = holders ? `: it is held by ${holders}` : '';
      throw new Failure(
        `${describeLock(lock)} was not granted within --wait${why}`,
        ExitCode.timedOut,
      );
    }
    throw error;
  } finally {
    ended.abort();
  }
}

/** Prints a note if the wait for a lock is still going on after a second. */
async function reportWait(lock: Lock, ended: AbortSignal): Promise<void> {
  try {
    await sleep(SILENT_WAIT, { signals: [ended] });
    const holders = await describeHolders(lock);
    if (!ended.aborted) {
      note(`waiting for ${describeLock(lock)}${holders ? `, which is held by ${holders}` : ''}`);
    }
  } catch {
    // The wait has ended.
  }
}

/** Resolves to the names of the holders; undefined if there is none now, or if they cannot be read. */
async function describeHolders(lock: Lock): Promise<string | undefined> {
  const limit = AbortSignal.timeout(READ_LIMIT);
  const participants = await abortable(lock.participants(), limit).catch(() => []);
  const holders = participants.filter(({ state }) => state !== 'waiting');
  const shown = holders.slice(0, MAX_HOLDERS).map((each) => {
    const ended = hasEnded(each) ? ', which has ended' : '';
    return describeParticipant(each) + ended;
  });
  const more = holders.length - shown.length;
  if (more > 0) shown.push(`${more} more`);
  return shown.length > 0 ? shown.join(', ') : undefined;
}

function describeLock({ noun, key }: Lock): string {
  return `${noun} ${JSON.stringify(key)}`;
}
