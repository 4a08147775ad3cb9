import { type Command } from 'commander';
import { abortable, checkBelowRoot, ZkClient } from '../client/index.js';
import { checkKey } from '../services/keys.js';
import {
  clientOptionsOf,
  type ConnectionOptions,
  firstRetries,
  RETRY_DELAY,
} from './connection.js';
import { readDuration, readPositiveDuration } from './durations.js';
import { ChildCommand, type ExitStatus, FORWARDED_SIGNALS, hasTerminal } from './child-process.js';
import { note, notesWritten } from './output.js';
import { UsageError } from './exit.js';

/** The options of each command that runs another one. */
export interface CommandOptions extends ConnectionOptions {
  /** Milliseconds. */
  readonly grace?: number;
  /** Milliseconds. */
  readonly sessionTimeout?: number;
}

/** Milliseconds. */
const DEFAULT_SESSION_TIMEOUT = 30_000;
/**
 * The default of the grace and its safe limit, as parts of the session timeout. A client counts its session as lost after three
 * quarters of the timeout. The servers grant the lock to another process at the earliest a quarter of the timeout later.
 */
const GRACE_PART = 1 / 6;
const MAX_GRACE_PART = 1 / 4;

/** Adds these options to a command. */
export function addCommandOptions(command: Command): Command {
  return command
    .option(
      '--grace <duration>',
      'the time between SIGTERM and SIGKILL for a command that must stop (default: a sixth of the session timeout that the server grants)',
      readDuration,
    )
    .option(
      '--session-timeout <duration>',
      'the session timeout: after a crash of this process, others wait this long (default: 30s)',
      readPositiveDuration,
    );
}

/**
 * Checks arguments before a connection is made, and returns the key. Commander would report that an option is missing before
 * it reports one that is misspelt.
 *
 * @param key a key, or a path if it starts with a slash
 * @param flags the option of the key and its placeholder
 */
export function checkArguments(
  [file]: readonly string[],
  key: string | undefined,
  flags: string,
): string {
  if (key === undefined) throw new UsageError(`required option '${flags}' not specified`);
  if (file === '') throw new UsageError('the command is an empty string');
  const [option] = flags.split(' ') as [string];
  // Without its value, an option takes the next argument as the value.
  if (key.startsWith('--')) throw new UsageError(`${option} is followed by ${key}, not by a value`);
  checkKey(key, option);
  if (key.startsWith('/')) checkBelowRoot(key, option);
  return key;
}

/** Calls `fn` with a connected client. Resolves to its result, or to the signal that has cancelled it. */
export async function supervise(
  options: CommandOptions,
  fn: (client: ZkClient, supervisor: Supervisor) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  const { sessionTimeout = DEFAULT_SESSION_TIMEOUT } = options;
  let connected = false;
  // Once connected, a wait outlives a restart of the ensemble.
  const mayRetry = firstRetries();
  const retry = (attempt: number) => (connected || mayRetry(attempt) ? RETRY_DELAY : undefined);
  const client = new ZkClient(clientOptionsOf(options, { sessionTimeout, retry }));
  const supervisor = new Supervisor();
  try {
    await abortable(client.connect(), supervisor.cancelled);
    connected = true;
    const { timeout } = await client.session({ signal: supervisor.cancelled });
    supervisor.grace = graceFor(timeout, options);
    return await fn(client, supervisor);
  } catch (error) {
    // The signal has caused the error.
    if (supervisor.stopSignal) return supervisor.stopSignal;
    throw error;
  } finally {
    await client.close();
    await notesWritten();
    supervisor.stopListening();
  }
}

/**
 * Returns the grace for the session timeout that the server granted. Prints a note if the server granted less than was
 * requested, or if the grace is too long.
 */
function graceFor(timeout: number, { grace, sessionTimeout = 0 }: CommandOptions): number {
  const granted = `the session timeout that the server granted, ${timeout / 1000}s`;
  if (timeout < sessionTimeout) note(`${granted}, is shorter than --session-timeout`);
  if (grace !== undefined && grace > timeout * MAX_GRACE_PART) {
    note(
      `--grace is longer than a quarter of ${granted}: after a loss, another process may get the lock before the command has ended`,
    );
  }
  return grace ?? timeout * GRACE_PART;
}

/** The signals that end `run` and `elect`. They end the command too, unless it handles them. */
const CANCEL_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGQUIT'];

/** Runs commands one after the other, and forwards the signals of this process to them. */
export class Supervisor {
  /** The signal that has ended a wait or a command, if one has. This process ends then, too. */
  stopSignal: NodeJS.Signals | undefined;
  private readonly cancelling = new AbortController();
  /** Milliseconds between SIGTERM and SIGKILL for a command that must stop. */
  grace = 0;
  private child: ChildCommand | undefined;
  /** SIGHUP means that the terminal was closed. Without a terminal, it asks a daemon to read its configuration. */
  private readonly cancelSignals = hasTerminal() ? [...CANCEL_SIGNALS, 'SIGHUP'] : CANCEL_SIGNALS;
  private readonly forwarded = new Set<NodeJS.Signals>();

  constructor() {
    for (const signal of FORWARDED_SIGNALS) process.on(signal, this.receive);
  }

  /** Aborts when this process receives a signal that ends it. */
  get cancelled(): AbortSignal {
    return this.cancelling.signal;
  }

  /**
   * Runs a command, and stops it when one of the leases is lost. Resolves to undefined then, otherwise to the exit status of
   * the command. Does not start the command if a lease is lost already.
   */
  async run(
    command: readonly string[],
    env: Readonly<Record<string, string>>,
    ...leases: readonly { readonly signal: AbortSignal }[]
  ): Promise<ExitStatus | undefined> {
    // Reading the signal of a lease reads the clock. This process may have been paused.
    const signals = leases.map(({ signal }) => signal);
    const lost = signals.find(({ aborted }) => aborted);
    if (lost) {
      note(`${(lost.reason as Error).message}; the command is not started`);
      return undefined;
    }
    this.forwarded.clear();
    const child = (this.child = new ChildCommand(command, env, this.grace));
    const stop = () => {
      // Not the `currentTarget` of the event: in Node 20 it is null after the first listener.
      const { reason } = signals.find(({ aborted }) => aborted)!;
      note(`${(reason as Error).message}; the command is stopped`);
      void child.stop();
    };
    for (const signal of signals) signal.addEventListener('abort', stop);
    try {
      const status = await child.ended;
      // Read again, for the clock.
      if (leases.some(({ signal }) => signal.aborted)) {
        await child.stop();
        return undefined;
      }
      if (typeof status === 'string' && this.forwarded.has(status)) this.end(status);
      return status;
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', stop);
      this.child = undefined;
    }
  }

  /** Gives the signals their default effect again. */
  stopListening(): void {
    for (const signal of FORWARDED_SIGNALS) process.off(signal, this.receive);
  }

  private readonly receive = (signal: NodeJS.Signals): void => {
    this.forwarded.add(signal);
    this.child?.forward(signal);
    if (this.child ? this.cancelSignals.includes(signal) : signal !== 'SIGWINCH') this.end(signal);
  };

  private end(signal: NodeJS.Signals): void {
    this.stopSignal ??= signal;
    this.cancelling.abort();
  }
}
