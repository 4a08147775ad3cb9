import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, expect } from 'vitest';
import { running } from './processes.js';
import type { TestServer } from './servers.js';

/** The command line's program. */
export const PROGRAM = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

export interface CliProcess {
  readonly child: ChildProcess;
  /** What it has written to its standard output and error until now. */
  readonly output: { out: string; err: string };
  /** Resolves when its standard output contains a text. */
  until(text: string): Promise<void>;
  /** Resolves when the process has exited and both streams have ended, with the exit code of a shell. */
  readonly ended: Promise<{ code: number; out: string; err: string }>;
}

interface Options {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Whether the test reads the output. Default true. */
  readonly reads?: boolean;
}

const SIGNALS: Readonly<Record<string, number>> = { SIGINT: 130, SIGKILL: 137 };

/**
 * Returns a function that runs the command line on the file's server, in a session of its own, so without a terminal.
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

/** The processes of a script that prints `pids` and their ids. */
export const pidsIn = (out: string) => /^pids (.*)$/m.exec(out)![1]!.trim().split(' ').map(Number);

/** Resolves when none of the processes runs. */
export async function untilGone(pids: readonly number[]): Promise<void> {
  await expect.poll(() => running(pids), { interval: 10 }).toEqual([]);
}
