import { instant, type LostClock } from './keepalive.js';
import { isAnswer } from './reply-errors.js';
import type { Transport } from './transport/transport.js';

/** The ephemeral nodes of a session that must go: each is deleted until a server has answered (Curator's guaranteed delete). */
export class Discards {
  /** Full paths. */
  readonly #paths = new Set<string>();

  constructor(private readonly clock: LostClock) {}

  /** Resolves on the server's answer, or where it is left to the next connection. */
  add(path: string, transport: Transport | undefined): Promise<void> {
    this.#paths.add(path);
    return new Promise((resolve) => this.#send(path, transport, resolve));
  }

  /** On a new connection, before anything else. */
  sendAll(transport: Transport): void {
    for (const path of this.#paths) this.#send(path, transport, () => {});
  }

  /** They went with their session. */
  clear(): void {
    this.#paths.clear();
  }

  #send(path: string, transport: Transport | undefined, done: () => void): void {
    const sentAt = instant();
    const sent = transport?.delete(path, -1, (code) => {
      // Any answer settles it: what a server refuses to delete goes with the session.
      if (isAnswer(code)) {
        this.clock.answered(sentAt);
        this.#paths.delete(path);
      }
      done();
    });
    if (!sent) done();
  }
}
