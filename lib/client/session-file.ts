import {
  accessSync,
  constants,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { BadOptionError } from './errors.js';
import type { Credentials } from './transport/transport.js';
import { isRunning } from './process-state.js';
import { isRecord } from './validation.js';

/** Stands in a file that is reserved, before its client has a session. */
const NO_SESSION: Credentials = { id: '0', password: '0' };

/** The files that clients of this process use. */
const inUse = new Set<string>();

/**
 * Keeps the id and the password of a client's session in a file, so that the next process can end a session that this
 * process did not close. Any process that can read the file can end the session, so only its owner may read it.
 */
export class SessionFile {
  private readonly path: string;
  private claimed = false;

  /** @param path checked, see {@link checkSessionFile} */
  constructor(path: string) {
    const absolute = resolve(path);
    const folder = dirname(absolute);
    // Two paths to one file are one file.
    this.path = isDirectory(folder) ? join(realpathSync(folder), basename(absolute)) : absolute;
  }

  /**
   * Reserves the file for this client. Returns the session in it, if a process left one.
   *
   * @throws BadOptionError if the file cannot be used, or another client uses it
   */
  claim(): Credentials | undefined {
    if (this.claimed) return undefined;
    if (inUse.has(this.path)) throw this.refuse('a file that no other connection uses');
    const previous = this.read();
    this.write(previous ?? NO_SESSION);
    inUse.add(this.path);
    this.claimed = true;
    return previous;
  }

  /** Replaces the content. A failure becomes a process warning: it matters only at the next start. */
  write({ id, password }: Credentials): void {
    const draft = `${this.path}.${process.pid}.tmp`;
    const content = { host: hostname(), pid: process.pid, id, password };
    try {
      rmSync(draft, { force: true });
      writeFileSync(draft, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
      renameSync(draft, this.path);
    } catch (cause) {
      process.emitWarning(new Error(`sessionFile ${this.path} was not written`, { cause }));
    }
  }

  /** Ends the use of the file. @param sessionEnded whether the ensemble has confirmed the end of the session */
  release(sessionEnded: boolean): void {
    if (!this.claimed) return;
    this.claimed = false;
    inUse.delete(this.path);
    if (!sessionEnded || !this.isOurs()) return;
    try {
      rmSync(this.path, { force: true });
    } catch (cause) {
      process.emitWarning(new Error(`sessionFile ${this.path} was not deleted`, { cause }));
    }
  }

  /** Whether this process wrote the file last. */
  private isOurs(): boolean {
    try {
      return this.parse(readFileSync(this.path, 'utf8')).pid === process.pid;
    } catch {
      return false;
    }
  }

  private read(): Credentials | undefined {
    let text: string;
    try {
      accessSync(dirname(this.path), constants.W_OK);
      const { mode } = statSync(this.path);
      if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
        throw this.refuse('readable by its owner only (chmod 600), because it has a password');
      }
      text = readFileSync(this.path, 'utf8');
    } catch (cause) {
      if (cause instanceof BadOptionError) throw cause;
      const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
      if (isMissing && isDirectory(dirname(this.path))) return undefined;
      throw this.refuse('a file that this process may read and replace', cause);
    }
    const { host, pid, id, password } = this.parse(text);
    // The process id of another host says nothing: a container that was created again has another host name.
    if (host === hostname() && pid !== process.pid && isRunning(pid)) {
      throw this.refuse(`a file of this process alone: process ${pid} uses it (if not, delete it)`);
    }
    return id === NO_SESSION.id ? undefined : { id, password };
  }

  private parse(text: string): { host: unknown; pid: number; id: string; password: string } {
    try {
      const content: unknown = JSON.parse(text);
      if (isRecord(content)) {
        const { host, pid, id, password } = content;
        if (Number.isInteger(pid) && isHex(id) && isHex(password)) {
          return { host, pid: pid as number, id, password };
        }
      }
    } catch {
      // Not JSON.
    }
    throw this.refuse('a file that this option has written, or none (delete it)');
  }

  private refuse(expected: string, cause?: unknown): BadOptionError {
    return new BadOptionError('sessionFile', this.path, expected, { cause });
  }
}

/** @throws BadOptionError */
export function checkSessionFile(path: unknown): string {
  if (typeof path === 'string' && path !== '' && !path.includes('\0')) return path;
  throw new BadOptionError('sessionFile', path, "the path of a file, such as '.zookeeper-session'");
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function isHex(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{1,64}$/i.test(value);
}
