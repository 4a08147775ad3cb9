import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const CLIENT = new URL('../../dist/client/index.js', import.meta.url).href;

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program in a process of its own until it exits. It imports the built client as `./index.js`.
 *
 * @param onLine called with each line that the program prints
 */
export function runProgram(
  program: string,
  env: Record<string, string>,
  onLine: (line: string) => void = () => {},
): Promise<Ended> {
  const source = program.replaceAll(`'./index.js'`, `'${CLIENT}'`);
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    env: { ...process.env, ...env },
    timeout: 120_000,
    killSignal: 'SIGKILL',
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk) => (stdout += chunk));
  createInterface(child.stdout).on('line', onLine);
  child.stderr.on('data', (chunk) => (stderr += chunk));
  return new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}
