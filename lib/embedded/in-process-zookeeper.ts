import { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers';
import { Faults, sessionOf } from './faults.js';
import {
  type EmbeddedZooKeeperOptions,
  integer,
  parseSessionId,
  resolveOptions,
} from './options.js';
import type { ClientStream } from './outbox.js';
import { ZooKeeperServer } from './server.js';

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

  /** Opens a connection to the server. */
  connect(): Duplex {
    const [client, accepted] = [new End(), new End()];
    client.other = accepted;
    accepted.other = client;
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

/** One end of a connection within this process. The other end reads its writes in a later turn of the event loop. */
class End extends Duplex implements ClientStream {
  readonly remoteAddress = '127.0.0.1';
  readonly remotePort = 0;
  other!: End;
  #read: (() => void) | undefined;

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    setImmediate(() => this.other.#receive(chunk, done));
  }

  override _final(done: () => void): void {
    setImmediate(() => this.other.#receive(null, done));
  }

  override _read(): void {
    this.#read?.();
    this.#read = undefined;
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // Completes the other end's pending write, and destroys the other end.
    this._read();
    setImmediate(() => this.other.destroy());
    done(error);
  }

  setNoDelay(): this {
    return this;
  }

  /** A connection within a process needs no idle timeout. */
  setTimeout(): this {
    return this;
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  resetAndDestroy(): this {
    return this.destroy();
  }

  /** Calls `done` when there is room for more. */
  #receive(chunk: Buffer | null, done: () => void): void {
    if (this.destroyed || this.push(chunk)) done();
    else this.#read = done;
  }
}
