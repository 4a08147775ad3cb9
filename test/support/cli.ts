import { type ChildProcess, spawn } from 'node:child_process';
import { type EventEmitter, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, vi } from 'vitest';
import { running } from './processes.js';
import type { TestServer } from './servers.js';

/** The command line's program. */
export const PROGRAM = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The end of a command line, with the exit code of a shell. */
export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface CliProcess {
  readonly child: ChildProcess;
  /** What it has written to its standard output and error until now. */
  readonly output: { out: string; err: string };
  /** Resolves when its standard output contains a text. */
  until(text: string): Promise<void>;
  /** Resolves when the process has exited and both streams have ended. */
  readonly ended: Promise<CliResult>;
}

type Variables = Readonly<Record<string, string | undefined>>;

interface Options {
  readonly env?: Variables;
  /** Whether the test reads the output. Default true. */
  readonly reads?: boolean;
}

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 130, SIGKILL: 137 };

/**
 * Returns a function that runs the command line on the file's server, in its own process group (`detached`), without a
 * controlling terminal.
 * Its processes are killed after each test.
 */
export function useCli(server: Pick<TestServer, 'connectString'>) {
  const started: ChildProcess[] = [];
  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
  });
  const program = (
    file: string,
    args: readonly string[],
    { env, reads = true }: Options = {},
  ): CliProcess => {
    const child = spawn(file, args, {
      detached: true,
      env: { ...process.env, ZOOKEEPER: server.connectString, ...env },
    });
    started.push(child);
    const output = { out: '', err: '' };
    if (reads) {
      child.stdout.on('data', (data: Buffer) => (output.out += data.toString()));
      child.stderr.on('data', (data: Buffer) => (output.err += data.toString()));
    }
    const ended = once(child, 'close').then(([code, signal]) => ({
      code: (code ?? SIGNALS[signal as string]) as number,
      ...output,
    }));
    const until = async (text: string) => {
      await expect.poll(() => output.out, { interval: 5 }).toContain(text);
    };
    return { child, output, ended, until };
  };
  const cli = (args: readonly string[], options?: Options) =>
    program(process.execPath, [PROGRAM, ...args], options);
  return Object.assign(cli, { program });
}

const LISTENED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
let runs = 0;

/**
 * Runs the command line in this process, because the start of a process takes half a second. One command runs at a time.
 * The output of the children that it starts is not captured.
 *
 * @param env further environment variables
 */
export async function runCli(args: readonly string[], env: Variables = {}): Promise<CliResult> {
  const before = { argv: process.argv, env: process.env, exitCode: process.exitCode };
  const emitters: readonly EventEmitter[] = [process, process.stdout, process.stderr];
  const listeners = [...LISTENED, 'error'].map((event) =>
    emitters.map((emitter) => [emitter, event, emitter.listeners(event)] as const),
  );
  const output = { out: '', err: '' };
  const capture = (name: 'out' | 'err') => (text: string | Uint8Array) => {
    output[name] += text.toString();
    return true;
  };
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation(capture('out')),
    vi.spyOn(process.stderr, 'write').mockImplementation(capture('err')),
  ];
  process.argv = [process.execPath, PROGRAM, ...args];
  process.env = { ...before.env, FORCE_COLOR: undefined, ...env };
  process.exitCode = 0;
  try {
    // Each import of another address runs the program again.
    runs += 1;
    await import(/* @vite-ignore */ `../../lib/cli/main.ts?run=${runs}`);
    return { code: Number(process.exitCode), ...output };
  } finally {
    for (const spy of spies) spy.mockRestore();
    Object.assign(process, before);
    for (const [emitter, event, known] of listeners.flat()) {
      for (const each of emitter.listeners(event)) {
        if (!known.includes(each)) emitter.off(event, each as () => void);
      }
    }
  }
}

/** The processes of a script that prints `pids` and their ids. */
export const pidsIn = (out: string) => /^pids (.*)$/m.exec(out)![1]!.trim().split(' ').map(Number);

/** Resolves when none of the processes runs. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  await expect.poll(() => running(pids), { interval: 10 }).toEqual([]);
}
