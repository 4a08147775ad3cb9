import type { ZkClient } from '../client/index.js';

/** What this process has of one kind on each client, by id. It goes with its client. */
export class PerClient<T> {
  private readonly known = new WeakMap<ZkClient, Map<string, T>>();

  of(client: ZkClient): Map<string, T> {
    let own = this.known.get(client);
    if (!own) this.known.set(client, (own = new Map()));
    return own;
  }
}
