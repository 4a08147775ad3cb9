import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { collectOutput } from './command.js';

const CLIENT = new URL('../../dist/client/index.js', import.meta.url).href;

/**
 * Runs a program in a process of its own until it exits. It imports the built client as `./index.js`.
 *
 * @param onLine called with each line that the program prints
 */
export function runProgram(
  program: string,
  env: Record<string, string>,
  onLine: (line: string) => void = () => {},
) {
  const source = program.replaceAll(`'./index.js'`, `'${CLIENT}'`);
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    env: { ...process.env, ...env },
    timeout: 120_000,
    killSignal: 'SIGKILL',
  });
  createInterface(child.stdout).on('line', onLine);
  return collectOutput(child).ended;
}
