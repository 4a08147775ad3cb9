import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The process that uses a directory. */
interface Owner {
  readonly pid: number;
  /** When the process began, as Linux counts it; another process may have the same id later. */
  readonly start?: string | undefined;
}

/**
 * Locks a directory for this process. Returns the function that unlocks it. A lock whose process has ended does not count.
 * The lock does not work between containers, because they do not see each other's processes.
 *
 * @throws Error if another server of this machine has locked it
 */
export function lockDirectory(directory: string): () => void {
  const file = join(directory, 'lock');
  const own = `${file}.${process.pid}`;
  const self: Owner = { pid: process.pid, start: startOf(process.pid) };
  writeFileSync(own, JSON.stringify(self), { flush: true });
  try {
    // A link appears with its content. A file that is created first and written then could be read while it is empty.
    while (!succeeds('EEXIST', () => linkSync(own, file))) removeStale(file);
  } finally {
    rmSync(own);
  }
  return () => rmSync(file, { force: true });
}

/** @throws Error if the process of the lock runs */
function removeStale(file: string): void {
  let text = '';
  if (!succeeds('ENOENT', () => (text = readFileSync(file, 'utf8')))) return;
  const { pid, start } = parse(file, text);
  if (isRunning(pid) && (start === undefined || start === startOf(pid))) {
    throw new Error(`the server with process id ${pid} uses it`);
  }
  const moved = `${file}.stale.${process.pid}`;
  if (!succeeds('ENOENT', () => renameSync(file, moved))) return;
  // Another server may have replaced the stale lock after it was read.
  if (readFileSync(moved, 'utf8') !== text) linkSync(moved, file);
  rmSync(moved);
}

function parse(file: string, text: string): Owner {
  try {
    const owner = JSON.parse(text) as Partial<Owner> | null;
    if (Number.isInteger(owner?.pid)) return owner as Owner;
  } catch {}
  throw new Error(`${file} does not name a process: remove it if no server uses the directory`);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Returns the start time of a process in clock ticks since the boot; undefined where there is no /proc. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in parentheses, may contain spaces.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}

/** Returns false if `work` fails with this code. */
function succeeds(unless: string, work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === unless) return false;
    throw error;
  }
}
