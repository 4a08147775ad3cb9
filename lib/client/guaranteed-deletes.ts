import { parentOf } from './paths.js';
import { ErrorCode } from '../protocol/index.js';
import { isAnswer, type SessionDeadline } from './session-deadline.js';
import type { Transport } from './transport/transport.js';

/** Ephemeral nodes of a session that are deleted on each new connection until a server has answered. Counterpart of Curator's guaranteed delete. */
export class GuaranteedDeletes {
  /** Full paths. */
  readonly #paths = new Set<string>();

  /** @param refused called when a server refuses to delete a node, with the result code */
  constructor(
    private readonly deadline: SessionDeadline,
    private readonly refused: (path: string, code: number) => void,
  ) {}

  /** Deletes a node. Resolves when the server has answered, or when the delete is left to the next connection. */
  send(path: string, transport: Transport | undefined): Promise<void> {
    this.#paths.add(path);
    return new Promise((resolve) => {
      const reply = this.deadline.extendedBy<void>((code) => {
        // Any answer is final: a node that the server refuses to delete ends with the session.
        const known = isAnswer(code) && this.#paths.delete(path);
        if (known && code !== ErrorCode.ok && code !== ErrorCode.noNode) this.refused(path, code);
        resolve();
      });
      if (!transport?.delete(path, -1, reply)) resolve();
    });
  }

  /** Sends all deletes again. On a new connection this precedes all other requests. */
  sendAll(transport: Transport): void {
    for (const path of this.#paths) void this.send(path, transport);
  }

  /** Forgets all nodes: they were deleted with their session. */
  clear(): void {
    this.#paths.clear();
  }
}

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
