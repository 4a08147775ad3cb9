import { ErrorCode } from '../protocol/codes.js';
import { parentOf } from './validation.js';

/** How many directories a client remembers, so that a service with a directory for each order does not use up memory. */
const MAX_DIRECTORIES = 1000;

/** A node that a server refused to delete. */
export interface RefusedDelete {
  /** The node, with the chroot of the connect string. */
  readonly path: string;
  /** Whether it is the client's first refusal in this directory. The client remembers 1,000 directories. */
  readonly first: boolean;
  /** What happened, and what to change. */
  readonly message: string;
}

/** The directories in which servers refused deletes of one client. */
export class RefusedDeletes {
  readonly #directories = new Set<string>();

  add(path: string, code: number): RefusedDelete {
    const directory = parentOf(path);
    const first = !this.#directories.has(directory);
    this.#directories.add(directory);
    if (this.#directories.size > MAX_DIRECTORIES) {
      const [oldest] = this.#directories;
      this.#directories.delete(oldest);
    }
    const cause =
      code === ErrorCode.noAuth
        ? `the ACL of ${directory} denies it (${code}). Grant the permission 'd' (delete) on ${directory} to this client`
        : `result code ${code}`;
    const message = `the server refused to delete ${path}: ${cause}. Until the session ends, this node blocks its lock or election`;
    return { path, first, message };
  }
}
