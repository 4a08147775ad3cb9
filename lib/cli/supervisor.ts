import { type Command } from 'commander';
import type { ZkClient } from '../client/index.js';
import { abortable } from '../client/sleep.js';
import { checkPath } from '../client/validation.js';
import { checkKey } from '../services/keys.js';
import { clientOf, connect, type ConnectionOptions } from './connection.js';
import { readDuration } from './durations.js';
import { ChildCommand, type Ending, note, PASSED_SIGNALS } from './child-process.js';
import { UsageError } from './exit-codes.js';

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
 * The default of the grace, as a part of the session timeout. A client counts its session as lost after three quarters of the
 * timeout. The command has ended then before the servers grant the lock to another process.
 */
const GRACE_PART = 1 / 6;
/** For the first connection: the number of attempts, and the milliseconds between them. */
const ATTEMPTS = 4;
const ATTEMPT_INTERVAL = 500;

/** Adds these options to a command. */
export function addCommandOptions(command: Command): Command {
  return command
    .option(
      '--grace <duration>',
      'the time between SIGTERM and SIGKILL for a command that must stop (default: a sixth of the session timeout)',
      readDuration,
    )
    .option(
      '--session-timeout <duration>',
      'how long others wait after a crash of this process (default: 30s)',
      readDuration,
    );
}

/**
 * Checks arguments before a connection is made.
 *
 * @param key a key, or a path if it starts with a slash
 * @param option the option of the key
 */
export function checkArguments([file]: readonly string[], key: string, option: string): void {
  if (file === '') throw new UsageError('the command is an empty string');
  checkKey(key, option);
  if (key.startsWith('/')) checkPath(key, option);
}

/** Calls `fn` with a connected client. Resolves to its result, or to the signal that has cancelled it. */
export async function supervise(
  options: CommandOptions,
  fn: (client: ZkClient, supervisor: Supervisor) => Promise<Ending>,
): Promise<Ending> {
  const { sessionTimeout = DEFAULT_SESSION_TIMEOUT } = options;
  let connected = false;
  const client = clientOf(options, {
    sessionTimeout,
    // Once connected, a wait outlives a restart of the ensemble.
    retry: (attempt) => (connected || attempt < ATTEMPTS ? ATTEMPT_INTERVAL : undefined),
  });
  const supervisor = new Supervisor(options.grace ?? sessionTimeout * GRACE_PART);
  try {
    await abortable(connect(client), supervisor.cancelled);
    connected = true;
    return await fn(client, supervisor);
  } catch (error) {
    // The signal has caused the error.
    if (supervisor.ending) return supervisor.ending;
    throw error;
  } finally {
    await client.close();
    supervisor.stopListening();
  }
}

/** These end the process, and not only a command that handles others in its own way. */
const ENDING_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGQUIT'];

/** Runs commands one after the other, and passes the signals of this process on to them. */
export class Supervisor {
  /** The signal that has ended a wait or a command, if one has. This process ends then, too. */
  ending: NodeJS.Signals | undefined;
  private readonly cancelling = new AbortController();
  private child: ChildCommand | undefined;
  private readonly passed = new Set<NodeJS.Signals>();

  /** @param grace milliseconds between SIGTERM and SIGKILL for a command that must stop */
  constructor(private readonly grace: number) {
    for (const signal of PASSED_SIGNALS) process.on(signal, this.receive);
  }

  /** Aborts when this process receives a signal that ends it. */
  get cancelled(): AbortSignal {
    return this.cancelling.signal;
  }

  /**
   * Runs a command, and stops it when one of the rights is lost. Resolves to undefined then, otherwise to the ending of
   * the command.
   */
  async run(
    command: readonly string[],
    env: Readonly<Record<string, string>>,
    ...rights: readonly { readonly signal: AbortSignal }[]
  ): Promise<Ending | undefined> {
    const child = (this.child = new ChildCommand(command, env, this.grace));
    const signals = rights.map(({ signal }) => signal);
    let lost: AbortSignal | undefined;
    const stopIfLost = () => {
      if (lost || !(lost = signals.find(({ aborted }) => aborted))) return;
      note(`${(lost.reason as Error).message}; the command is stopped`);
      void child.stop();
    };
    for (const signal of signals) signal.addEventListener('abort', stopIfLost);
    try {
      stopIfLost();
      const ending = await child.ended;
      // Reading the signal of a lease reads the clock. The command may have run while this process was paused.
      if (rights.some(({ signal }) => signal.aborted)) {
        await child.stop();
        return undefined;
      }
      if (typeof ending === 'string' && this.passed.has(ending)) this.end(ending);
      return ending;
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', stopIfLost);
      this.child = undefined;
    }
  }

  /** Gives the signals their default effect again. */
  stopListening(): void {
    for (const signal of PASSED_SIGNALS) process.off(signal, this.receive);
  }

  private readonly receive = (signal: NodeJS.Signals): void => {
    this.passed.add(signal);
    this.child?.pass(signal);
    if (this.child ? ENDING_SIGNALS.includes(signal) : signal !== 'SIGWINCH') this.end(signal);
  };

  private end(signal: NodeJS.Signals): void {
    this.ending ??= signal;
    this.cancelling.abort();
  }
}
