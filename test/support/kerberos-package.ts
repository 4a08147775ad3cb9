import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import Module, { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

const VERSION = '7.0.0';
/** Milliseconds for the download and the compilation. */
const LIMIT = 300_000;
const FOLDER = fileURLToPath(
  new URL(`../../node_modules/.cache/kerberos-${VERSION}`, import.meta.url),
);

/**
 * Installs the npm package `kerberos` into the cache of this repository, unless it is there. It is no development
 * dependency, because `npm ci` would then fail on a machine without the headers of Kerberos.
 */
export async function installKerberos(): Promise<void> {
  if (loads()) return;
  await mkdir(FOLDER, { recursive: true });
  await writeFile(
    join(FOLDER, 'package.json'),
    // Since version 11 npm runs an install script only if it is allowed.
    JSON.stringify({ private: true, allowScripts: { kerberos: true } }),
  );
  const install = ['install', '--no-audit', '--no-fund', `kerberos@${VERSION}`];
  await run('npm', install, { cwd: FOLDER, timeout: LIMIT });
}

/** Makes `require('kerberos')` load the installed package in this process, as if the repository depended on it. */
export function resolveKerberos(): void {
  const loader = Module as unknown as { _load(name: string, ...rest: unknown[]): unknown };
  const load = loader._load;
  const installed = join(FOLDER, 'node_modules/kerberos');
  loader._load = (name, ...rest) => load(name === 'kerberos' ? installed : name, ...rest);
}

function loads(): boolean {
  try {
    createRequire(join(FOLDER, 'package.json'))('kerberos');
    return true;
  } catch {
    return false;
  }
}
