import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

/** The process that uses a directory. What is optional is undefined where there is no /proc. */
interface Owner {
  readonly pid: number;
  /** When the process began: clock ticks since the boot; another process may have the same id later. */
  readonly start?: string | undefined;
  readonly boot?: string | undefined;
  readonly host: string;
  /** The process ids of another namespace, such as that of a container, are not visible. */
  readonly namespace?: string | undefined;
}

/** A directory that only this process uses. */
export interface DirectoryLock {
  /** @throws Error if the lock was removed or belongs to another process */
  check(): void;
  /** Removes the lock, unless it belongs to another process. */
  unlock(): void;
}

/**
 * Locks a directory for this process. Replaces the lock of a process that has ended.
 *
 * @throws Error if another server has locked the directory, or if that is unknown
 */
export function lockDirectory(directory: string): DirectoryLock {
  const file = join(directory, 'lock');
  const own = `${file}.${randomUUID()}`;
  const self: Owner = {
    pid: process.pid,
    start: startOf(process.pid),
    boot: orUndefined(() => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()),
    host: hostname(),
    namespace: orUndefined(() => readlinkSync('/proc/self/ns/pid')),
  };
  const text = JSON.stringify(self);
  writeFileSync(own, text, { flush: true, flag: 'wx' });
  try {
    // A link appears with its content. A file that is created first and written then could be read while it is empty.
    while (!succeeds('EEXIST', () => linkSync(own, file))) {
      checkStale(file, self);
      removeStale(file, own, self);
    }
  } finally {
    rmSync(own);
  }
  const isOwn = () => orUndefined(() => readFileSync(file, 'utf8')) === text;
  return {
    check() {
      if (!isOwn()) throw new Error(`${file} was removed or belongs to another server`);
    },
    unlock() {
      if (isOwn()) rmSync(file);
    },
  };
}

/**
 * Removes a stale lock. Only one process at a time may do so: another one could remove the lock of the next owner.
 *
 * @throws Error if another process removes it, or if the lock has a new owner
 */
function removeStale(file: string, own: string, self: Owner): void {
  const guard = `${file}.break`;
  if (!succeeds('EEXIST', () => linkSync(own, guard))) {
    throw new Error(`another server starts to use it: remove ${guard} if no server starts`);
  }
  try {
    checkStale(file, self);
    rmSync(file, { force: true });
  } finally {
    rmSync(guard, { force: true });
  }
}

/** @throws Error if the process of the lock runs, or if this is unknown */
function checkStale(file: string, self: Owner): void {
  let text = '';
  if (!succeeds('ENOENT', () => (text = readFileSync(file, 'utf8')))) return;
  const remove = `remove ${file} if no server uses the directory`;
  const owner = parse(text);
  if (!owner) throw new Error(`${file} does not name a process: ${remove}`);
  const { pid, start, boot, host, namespace } = owner;
  // The machine was restarted.
  if (host === self.host && boot !== self.boot) return;
  if (host !== self.host || namespace !== self.namespace) {
    throw new Error(`it was locked in another container or on another machine: ${remove}`);
  }
  if (!isRunning(pid)) return;
  if (start === undefined) throw new Error(`the process with id ${pid} uses it: ${remove}`);
  if (start === startOf(pid)) throw new Error(`the server with process id ${pid} uses it`);
}

function parse(text: string): Owner | undefined {
  const owner = orUndefined(() => JSON.parse(text) as Partial<Owner> | null);
  return Number.isInteger(owner?.pid) ? (owner as Owner) : undefined;
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
  // The name of the program, in parentheses, may contain spaces.
  const stat = orUndefined(() => readFileSync(`/proc/${pid}/stat`, 'latin1'));
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}

function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
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
