// JavaScript with types in comments: scripts/test.mjs needs this file before anything is compiled.
import { execFileSync } from 'node:child_process';

/**
 * Returns whether a program is installed and exits with 0.
 *
 * @param {string} program
 * @param {readonly string[]} args
 */
export function runs(program, ...args) {
  try {
    execFileSync(program, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns a Python 3 that has kazoo; undefined if there is none. Debian's package serves Debian's Python, which may not be
 * the first one in the PATH.
 */
export function pythonWithKazoo() {
  return ['python3', '/usr/bin/python3'].find((python) => runs(python, '-c', 'import kazoo'));
}
