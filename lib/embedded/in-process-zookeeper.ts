import type { Duplex } from 'node:stream';
import { Faults } from './faults.js';
import { inProcessConnection } from './client-stream.js';
import {
  type EmbeddedZooKeeperOptions,
  integer,
  parseSessionId,
  resolveOptions,
} from './options.js';
import { ZooKeeperServer } from './server.js';

/** The server without a thread and sockets, for clients that speak the protocol on a stream. */
export class InProcessZooKeeper {
  /** As {@link EmbeddedZooKeeper.faults}. */
  readonly faults: Faults;
  readonly #server: ZooKeeperServer;

  constructor(options: Pick<EmbeddedZooKeeperOptions, 'tickTime'> = {}) {
    const server = new ZooKeeperServer(resolveOptions(options));
    this.#server = server;
    this.faults = new Faults(() => ({
      addFault: async (id, fault) => server.addFault(id, fault),
      liftFault: async (id) => server.liftFault(id),
    }));
    server.start();
  }

  /** Opens a connection to the server. */
  connect(): Duplex {
    const [client, accepted] = inProcessConnection();
    this.#server.accept(accepted);
    return client;
  }

  /** As {@link EmbeddedZooKeeper.expireSession}. */
  async expireSession(id: string): Promise<void> {
    if (!this.#server.expireSession(parseSessionId(id))) throw unknown('session', id);
  }

  /** As {@link EmbeddedZooKeeper.dropConnections}. */
  async dropConnections(session?: string): Promise<void> {
    if (session === undefined) return this.#server.dropConnections();
    if (!this.#server.dropConnection(parseSessionId(session))) {
      throw unknown('connection of session', session);
    }
  }

  /** As {@link EmbeddedZooKeeper.skipClock}. */
  async skipClock(ms: number): Promise<void> {
    integer('skipClock', ms, 0, Number.MAX_SAFE_INTEGER);
    this.#server.skipClock(ms);
  }

  async stop(): Promise<void> {
    await this.#server.close();
  }
}

function unknown(what: string, id: string): Error {
  return new Error(`the in-process ZooKeeper has no ${what} ${id}`);
}
