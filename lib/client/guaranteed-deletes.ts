import { isAnswer, type SessionDeadline } from './session-deadline.js';
import type { Transport } from './transport/transport.js';

/** Ephemeral nodes of a session that are deleted on each new connection until a server has answered. Counterpart of Curator's guaranteed delete. */
export class GuaranteedDeletes {
  /** Full paths. */
  readonly #paths = new Set<string>();

  constructor(private readonly deadline: SessionDeadline) {}

  /** Deletes a node. Resolves when the server has answered, or when the delete is left to the next connection. */
  send(path: string, transport: Transport | undefined): Promise<void> {
    this.#paths.add(path);
    return new Promise((resolve) => {
      const reply = this.deadline.extendedBy<void>((code) => {
        // Any answer is final: a node that the server refuses to delete ends with the session.
        if (isAnswer(code)) this.#paths.delete(path);
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
