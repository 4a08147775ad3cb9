// Packs and installs the package in temporary directories.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const root = join(import.meta.dirname, '..');

const execute = promisify(execFile);

/**
 * Runs a program for at most `timeout` milliseconds. The error of a failed program contains its output.
 *
 * @param {string} file
 * @param {readonly string[]} args
 * @param {{ timeout?: number; cwd?: string; env?: NodeJS.ProcessEnv }} options
 */
export async function run(file, args, { timeout = 300_000, ...options } = {}) {
  try {
    return await execute(file, args, { timeout, maxBuffer: 2 ** 26, ...options });
  } catch (error) {
    const {
      killed = false,
      stdout = '',
      stderr = '',
    } = /** @type {import('node:child_process').ExecFileException} */ (error);
    const ending = killed ? `did not end within ${timeout / 1000} s` : 'failed';
    const message = `${[file, ...args].join(' ')} ${ending}\n${stdout}${stderr}`;
    throw Object.assign(new Error(message), { stdout });
  }
}

/**
 * Calls `use` with a new temporary directory, which is removed in the end.
 *
 * @template T
 * @param {(directory: string) => T | Promise<T>} use
 */
export async function inScratch(use) {
  const directory = await mkdtemp(join(tmpdir(), 'nestjs-zookeeper-'));
  try {
    return await use(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/**
 * Packs dist without building it. Resolves with the path of the tarball.
 *
 * @param {string} directory
 */
export async function pack(directory) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', directory];
  const { stdout } = await run('npm', args, { cwd: root });
  const [{ filename }] = Object.values(JSON.parse(stdout));
  return join(directory, filename);
}

/**
 * @param {string} directory
 * @param {...string} packages
 */
export function install(directory, ...packages) {
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', ...packages];
  return run('npm', args, { cwd: directory });
}
