import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** The outcome of a command that has ended. */
export interface CommandResult {
  /** 0 to 255; undefined if a signal ended the command. */
  readonly code: number | undefined;
  readonly seconds: number;
  /** What the command wrote to standard output and standard error. */
  readonly output: string;
}

/** Runs a command of this repository. Resolves when it has ended and closed its output. */
export async function runCommand(command: string): Promise<CommandResult> {
  const started = performance.now();
  const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? undefined, seconds: (performance.now() - started) / 1000, output };
}
