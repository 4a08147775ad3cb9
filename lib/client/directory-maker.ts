import type { ZkClient } from './zk-client.js';

/**
 * Makes directories with an ACL for a client whose transport cannot. It could replace the open ACL a
 * round trip later, but others of ours enter a directory as soon as it is there: nobody could tell
 * them from a stranger who put a node into it before. So a second session makes it, which is there as
 * long as anybody asks.
 */
export class DirectoryMaker {
  #client: ZkClient | undefined;
  #users = 0;

  constructor(
    /** A client, not connected yet, whose transport creates with an ACL. */
    private readonly make: () => ZkClient,
    stopping: AbortSignal,
  ) {
    stopping.addEventListener('abort', () => void this.#client?.close(), { once: true });
  }

  async ensureContainers(path: string): Promise<void> {
    const client = (this.#client ??= this.make());
    this.#users++;
    try {
      await client.connect();
      await client.ensureContainers(path);
    } finally {
      if (--this.#users === 0) {
        this.#client = undefined;
        await client.close();
      }
    }
  }
}
