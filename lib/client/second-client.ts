import { ShuttingDownError } from './errors.js';
import type { Session } from './session.js';

/** The part of a ZkClient that its second client needs. */
interface Client {
  connect(): Promise<void>;
  session(): Promise<Session>;
  ensureContainers(path: string, options?: { persistent?: boolean | undefined }): Promise<void>;
  close(): Promise<void>;
}

/**
 * A second client on the wire transport, for what the native transport cannot do: transactions, and containers that have
 * an ACL from their creation. (The first client could set the ACL a round trip later, but other processes use a container
 * as soon as it exists: they could not distinguish a znode that a stranger created in it meanwhile.)
 *
 * After a transaction the second client stays connected until the first one is closed, because more transactions are
 * likely. Otherwise it is closed when no call is pending.
 */
export class SecondClient {
  #client: Client | undefined;
  #users = 0;
  #keepsOpen = false;
  #closed = false;

  /** @param newClient returns a client that is not connected */
  constructor(private readonly newClient: () => Client) {}

  /**
   * Calls `use` with the connected client.
   *
   * @param options `keepOpen`: whether the client stays connected until {@link close}; default false
   * @throws ShuttingDownError after {@link close}
   */
  async run<T>(use: (client: Client) => Promise<T>, { keepOpen = false } = {}): Promise<T> {
    if (this.#closed) throw new ShuttingDownError('the ZooKeeper client was closed');
    const client = (this.#client ??= this.newClient());
    this.#keepsOpen ||= keepOpen;
    this.#users++;
    try {
      await client.connect();
      return await use(client);
    } finally {
      if (--this.#users === 0 && !this.#keepsOpen) await this.#closeClient();
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    return this.#closeClient();
  }

  async #closeClient(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.close();
  }
}
