import { setImmediate } from 'node:timers';
import { Faults, sessionOf } from './faults.js';
import {
  type EmbeddedZooKeeperOptions,
  integer,
  parseSessionId,
  resolveOptions,
} from './options.js';
import { ZooKeeperServer } from './server.js';
import { InMemoryStream } from './stream.js';

/** The server without a thread and sockets, for clients that speak the protocol on a stream. */
export class InProcessZooKeeper {
  /** As {@link EmbeddedZooKeeper.faults}. */
  readonly faults: Faults;
  readonly #server: ZooKeeperServer;

  constructor(
    options: Pick<EmbeddedZooKeeperOptions, 'server' | 'tickTime' | 'containerCheckInterval'> = {},
  ) {
    const server = new ZooKeeperServer(resolveOptions(options));
    this.#server = server;
    this.faults = new Faults(() => server);
    server.start();
  }

  /** Opens a connection to the server. Each end reads what the other one writes in a later turn of the event loop. */
  connect(): InMemoryStream {
    const end = (other: () => InMemoryStream) =>
      new InMemoryStream({
        send: (packet) => void setImmediate(() => other().receive(packet)),
        closed() {},
        checkOwner() {},
        // A connection within a process needs no idle timeout.
        timer: () => () => {},
      });
    const client: InMemoryStream = end(() => accepted);
    const accepted: InMemoryStream = end(() => client);
    this.#server.accept(accepted);
    return client;
  }

  /** As {@link EmbeddedZooKeeper.expireSession}. */
  async expireSession(id: string): Promise<void> {
    this.#server.expireSession(parseSessionId(id));
  }

  /** As {@link EmbeddedZooKeeper.dropConnections}. */
  async dropConnections(session?: string): Promise<void> {
    this.#server.dropConnections(sessionOf({ session }));
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
