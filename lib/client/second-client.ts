import { ShuttingDownError } from './errors.js';
import type { Session } from './session.js';

/** The part of a ZkClient that its second client needs. */
interface Client {
  connect(): Promise<void>;
  session(): Promise<Session>;
  close(): Promise<void>;
}

/**
 * A second client on the wire transport, for the transactions that the native transport cannot send. It stays connected
 * until the first client is closed, because more transactions are likely.
 */
export class SecondClient {
  #client: Client | undefined;
  #closed = false;

  /** @param newClient returns a client that is not connected */
  constructor(private readonly newClient: () => Client) {}

  /**
   * Resolves to its session once it is connected.
   *
   * @throws ShuttingDownError after {@link close}, and the errors of the client
   */
  async session(): Promise<Session> {
    if (this.#closed) throw new ShuttingDownError('the ZooKeeper client was closed');
    const client = (this.#client ??= this.newClient());
    await client.connect();
    return client.session();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#client?.close();
  }
}
