import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  closeSync,
  constants as fsConstants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Writable } from 'node:stream';
import { isRunning, sleep } from '../client/index.js';
import { ExitCode, Failure } from './exit.js';
import { note } from './output.js';

/*
 * Without a controlling terminal, as under cron, systemd or CI, a command gets its own process group, as under `timeout`.
 * Signals are sent to the group, so that they reach the children of a shell too.
 *
 * At a terminal, the command stays in the process group of this process, as under `flock` and npm. In a group of its own
 * it could not ask for a password, and Ctrl-Z would not stop it. The terminal itself sends the signals of its keys to
 * every process of the group, so this process does not send them again. It sends other signals to the command and its
 * descendants.
 */

/** Exit code, or the signal that ended a command. */
export type ExitStatus = number | NodeJS.Signals;

/** The signals that are forwarded to a command. */
export const FORWARDED_SIGNALS = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGWINCH',
] as const satisfies NodeJS.Signals[];

/** The signals that a terminal sends to every process of the group in its foreground. */
const TERMINAL_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT', 'SIGWINCH'];

/** Milliseconds between two checks whether a process of the command still runs. Node reports only the end of its own child. */
const CHECK_INTERVAL = 50;
/** Milliseconds. A process in an uninterruptible system call, or of another user, may not end. */
const KILL_LIMIT = 5000;

/**
 * Ends a command when this process was killed: the kernel then closes the pipe to the standard input. The first line is the
 * process id of the command, negative for its group. $1 is the time between SIGTERM and SIGKILL in tenths of a second.
 */
const WATCHDOG = `
trap '' HUP INT QUIT TERM
read -r target || exit
read -r _
kill -s TERM -- "$target"
while [ "$1" -gt 0 ] && kill -s 0 -- "$target"; do
  if sleep 0.1 2>/dev/null; then set -- $(($1 - 1)); else sleep 1; set -- $(($1 - 10)); fi
done
kill -s KILL -- "$target"
`;

/**
 * Becomes the command when a line arrives in the pipe. If this process is killed before the watchdog knows the process id,
 * the pipe is closed, and the command does not begin.
 */
export const START = 'read -r _ <&3 || exit; exec 3<&-; exec "$@"';
const SHELL = '/bin/sh';

/** A process of this machine. */
interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Clock ticks since the boot. It differs between two processes that have had the same id. */
  readonly start: string;
}

/** A command that runs as a child process with the standard streams of this process. */
export class ChildCommand {
  /**
   * Resolves when the command has ended. If a signal has ended it, this includes the rest of its process group.
   * Rejects with a {@link Failure} if the command cannot be executed.
   */
  readonly ended: Promise<ExitStatus>;
  private readonly ownGroup = process.platform !== 'win32' && !hasTerminal();
  private readonly child: ChildProcess;
  private exited = false;
  private stopping: Promise<void> | undefined;
  /** At a terminal: the processes of the command at the last check. The parent of a process changes when that parent ends. */
  private known: readonly Process[] = [];

  /**
   * @param env added to the environment of this process, which is passed on without the credentials
   * @param grace milliseconds between SIGTERM and SIGKILL
   * @throws Failure if the command cannot be executed; some of these errors reject `ended` instead
   */
  constructor(
    [file, ...args]: readonly string[],
    env: Readonly<Record<string, string>>,
    private readonly grace: number,
  ) {
    // Node opens these streams at the latest when it closes a socket. That makes a pipe non-blocking for the command too,
    // and its writes to a full pipe fail. The start of a child process makes the pipe blocking again.
    void [process.stdout, process.stderr];
    // The command needs no access to the locks.
    const inherited = { ...process.env, ZOOKEEPER_AUTH: undefined };
    const options = { detached: this.ownGroup, env: { ...inherited, ...env } };
    const hasShell = existsSync(SHELL);
    if (hasShell) checkExecutable(file!);
    // Without a shell there is no watchdog, and the command outlives a kill of this process.
    const watchdog = hasShell ? startWatchdog(grace) : undefined;
    try {
      this.child = hasShell
        ? spawn(SHELL, ['-c', START, 'nestjs-zookeeper', file!, ...args], {
            ...options,
            stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
          })
        : spawn(file!, args, { ...options, stdio: 'inherit' });
    } catch (error) {
      watchdog?.kill('SIGKILL');
      throw notExecutable(file!, error as Error);
    }
    const { pid } = this.child;
    if (watchdog && pid) {
      const start = this.child.stdio[3] as Writable;
      start.on('error', () => {});
      watchdog.stdin!.write(`${this.ownGroup ? -pid : pid}\n`, () => start.end('\n'));
    }
    const onWatchdogEnd = () => note('the watchdog has ended: kill -9 would not stop the command');
    watchdog?.on('exit', onWatchdogEnd);
    this.ended = this.untilEnded(file!).finally(() => {
      watchdog?.off('exit', onWatchdogEnd);
      watchdog?.kill('SIGKILL');
    });
  }

  /** Forwards a signal that this process has received. */
  forward(signal: NodeJS.Signals): void {
    if (this.ownGroup || !TERMINAL_SIGNALS.includes(signal)) this.send(signal);
    // The rest is stopped when the signal ends a shell.
    else this.findTargets();
  }

  /** Sends SIGTERM, and SIGKILL to the processes that still run after the grace. Resolves when none of them runs. */
  stop(): Promise<void> {
    return (this.stopping ??= this.terminate());
  }

  private async untilEnded(file: string): Promise<ExitStatus> {
    const exit = once(this.child, 'exit') as Promise<[number, null] | [null, NodeJS.Signals]>;
    try {
      const [code, signal] = await exit.finally(() => (this.exited = true));
      // A shell that a signal has ended did not wait for its children.
      if (signal !== null || this.stopping) await this.stop();
      return signal ?? code;
    } catch (error) {
      throw notExecutable(file, error as Error);
    }
  }

  private async terminate(): Promise<void> {
    this.send('SIGTERM');
    await this.untilEmpty(this.grace);
    this.send('SIGKILL');
    await this.untilEmpty(KILL_LIMIT);
  }

  private async untilEmpty(limit: number): Promise<void> {
    const deadline = performance.now() + limit;
    while (this.runs && performance.now() < deadline) await sleep(CHECK_INTERVAL, { ref: true });
  }

  private get runs(): boolean {
    return this.findTargets().length > 0;
  }

  /** Returns the ids of the processes of the command that run, or the negative id of their group. */
  private findTargets(): number[] {
    const pid = this.child.pid!;
    if (this.ownGroup) {
      const runs = isRunning(-pid) && (listProcesses()?.some(({ group }) => group === pid) ?? true);
      return runs ? [-pid] : [];
    }
    const processes = listProcesses();
    if (!processes) return this.exited ? [] : [pid];
    // After the exit, the kernel may give the id to another process.
    this.known = descendantsOf(this.exited ? undefined : pid, this.known, processes);
    return this.known.map((each) => each.pid);
  }

  private send(signal: NodeJS.Signals): void {
    for (const target of this.findTargets()) {
      try {
        process.kill(target, signal);
      } catch {
        // It has ended, or it runs under another user. Then this process can only wait for it.
      }
    }
  }
}

/**
 * Checks that a shell can execute a file, because the message of the shell would name the shell's own line.
 *
 * @throws Failure
 */
function checkExecutable(file: string): void {
  const { PATH } = process.env;
  const hasFolder = file.includes('/');
  if (!hasFolder && PATH === undefined) return;
  const paths = hasFolder ? [file] : PATH!.split(delimiter).map((path) => join(path || '.', file));
  let refusal: string | undefined;
  for (const path of paths) {
    const problem = problemOf(path);
    if (problem === undefined) return;
    if (problem !== 'ENOENT') refusal ??= `${path}: ${problem}`;
  }
  if (refusal) {
    throw new Failure(`${file} cannot be executed: ${refusal}`, ExitCode.notExecutable);
  }
  const where = hasFolder
    ? 'there is no such file'
    : 'no directory of PATH has a file of this name';
  throw new Failure(`${file} was not found: ${where}`, ExitCode.notFound);
}

/** Returns why a file cannot be executed, `'ENOENT'` if it does not exist. */
function problemOf(path: string): string | undefined {
  try {
    if (!statSync(path).isFile()) return 'it is not a file';
    accessSync(path, fsConstants.X_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES') return 'permission denied';
    return 'ENOENT';
  }
}

function notExecutable(file: string, { message, code }: NodeJS.ErrnoException): Failure {
  const exitCode = code === 'ENOENT' ? ExitCode.notFound : ExitCode.notExecutable;
  return new Failure(`${file} cannot be executed: ${message}`, exitCode);
}

function startWatchdog(grace: number): ChildProcess {
  const tenths = String(Math.ceil(grace / 100));
  const watchdog = spawn(SHELL, ['-c', WATCHDOG, 'sh', tenths], {
    cwd: '/',
    // A signal to the process group of `run` does not reach the watchdog.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watchdog.stdin?.on('error', () => {});
  // The watchdog ends with this process.
  watchdog.unref();
  (watchdog.stdin as Socket | null)?.unref();
  return watchdog;
}

/** Makes this process exit as its command did. */
export function exitAs(status: ExitStatus): void {
  if (typeof status === 'number') {
    process.exitCode = status;
    return;
  }
  process.exitCode = ExitCode.signal + constants.signals[status];
  // A shell ends its script at Ctrl-C only if the signal has ended the program in the foreground.
  if (status === 'SIGINT') process.kill(process.pid, status);
}

/** Whether this process has a controlling terminal. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}

/** Returns the processes that have not ended; undefined on a system without /proc. */
function listProcesses(): Process[] | undefined {
  try {
    return readdirSync('/proc').flatMap((pid) => (/^\d+$/.test(pid) ? readProcess(pid) : []));
  } catch {
    return undefined;
  }
}

/** Returns those of the processes whose id is `root` or that are among `known`, and their descendants. */
function descendantsOf(
  root: number | undefined,
  known: readonly Process[],
  processes: readonly Process[],
): Process[] {
  const isKnown = ({ pid, start }: Process) =>
    pid === root || known.some((each) => each.pid === pid && each.start === start);
  const found = new Set(processes.filter(isKnown));
  // A set visits the items that are added meanwhile.
  for (const { pid } of found) {
    for (const each of processes) if (each.parent === pid) found.add(each);
  }
  return [...found];
}

/** Returns no zombie. In a container, process 1 may be a program that does not reap the children of others. */
function readProcess(pid: string): Process[] {
  try {
    // pid (name) state ppid pgrp … start …; the name may contain any character.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)!.split(' ');
    const [state, parent, group] = fields;
    if (state === 'Z') return [];
    return [{ pid: Number(pid), parent: Number(parent), group: Number(group), start: fields[19]! }];
  } catch {
    // It has ended.
    return [];
  }
}
