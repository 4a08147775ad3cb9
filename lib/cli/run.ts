import { basename } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { sleep, type ZkClient } from '../client/index.js';
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
import { lockPath, semaphorePath } from '../services/keys.js';
import { exitAs, type ExitStatus } from './child-process.js';
import { addConnectionOptions } from './connection.js';
import { readDuration, readPositiveDuration } from './durations.js';
import { ExitCode, Failure, UsageError } from './exit.js';
import {
  addCommandOptions,
  checkArguments,
  type CommandOptions,
  supervise,
  type Supervisor,
} from './supervisor.js';

interface RunOptions extends CommandOptions {
  readonly lock: string;
  readonly wait?: number;
  readonly semaphore?: number;
  readonly read?: boolean;
  readonly write?: boolean;
  readonly holdAtLeast?: number;
  readonly holdAtMost?: number;
}

/** Adds the command `run`. */
export function addRunCommand(program: Command): void {
  const command = program
    .command('run')
    .summary('run a command while holding a lock')
    .description('Acquires a lock, runs a command, and releases the lock.')
    .argument('<command...>', 'the command and its arguments, after --')
    .requiredOption('--lock <key>', 'the lock: a key, or a znode if it starts with a slash')
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
      checkArguments(argv, options.lock, '--lock');
      const { holdAtLeast = 0, holdAtMost = Infinity } = options;
      if (holdAtLeast > holdAtMost) {
        throw new UsageError('--hold-at-least must not be longer than --hold-at-most');
      }
      exitAs(await supervise(options, (...parts) => runLocked(argv, options, ...parts)));
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
  options: RunOptions,
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

function lockOf(client: ZkClient, { lock: key, semaphore, read, write }: RunOptions): Lock {
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
  try {
    return await lock.acquire({ wait, ...options });
  } catch (error) {
    if (error instanceof LockBusyError) {
      throw new Failure(`${describeLock(lock)} is held by others, and --wait is 0`, ExitCode.busy);
    }
    if (error instanceof LockTimeoutError) {
      throw new Failure(`${describeLock(lock)} was not granted within --wait`, ExitCode.timedOut);
    }
    throw error;
  }
}

function describeLock({ noun, key }: Lock): string {
  return `${noun} ${JSON.stringify(key)}`;
}
