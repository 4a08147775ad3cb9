import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { ActiveFaults, type Fault } from './faults.js';
import type { ClientStream } from './client-stream.js';
import { Connection, type ConnectionHost } from './connection.js';
import { fourLetterWord } from './four-letter-words.js';
import type { ServerOptions } from './options.js';
import { type SavedStore, Store } from './store.js';

/** A store, its timers, and the connections to it. */
export class ZooKeeperServer implements ConnectionHost {
  readonly store: Store;
  readonly faults = new ActiveFaults();
  readonly traffic = { received: 0, sent: 0 };
  readonly #connections = new Set<Connection>();
  readonly #attached = new Map<bigint, Connection>();
  readonly #listener: Server;
  #expiryTimer: NodeJS.Timeout | undefined;
  #reapTimer: NodeJS.Timeout | undefined;

  constructor(
    readonly options: ServerOptions,
    saved?: SavedStore,
  ) {
    this.store = new Store(options.tickTime, saved);
    this.#listener = createServer((socket) => this.accept(socket));
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  get connections(): ReadonlySet<Connection> {
    return this.#connections;
  }

  /** Resolves with the port when clients can connect. */
  async listen(): Promise<number> {
    const { host, port } = this.options;
    this.#listener.listen({ host, port, backlog: 2048 });
    await once(this.#listener, 'listening');
    this.start();
    return this.port;
  }

  /** Starts the timers, which do not keep the process alive. */
  start(): void {
    this.#scheduleExpiry();
    this.#reapTimer = setInterval(() => this.store.reap(), this.options.reapInterval).unref();
  }

  async close(): Promise<SavedStore> {
    clearTimeout(this.#expiryTimer);
    clearInterval(this.#reapTimer);
    const closed = this.#listener.listening && once(this.#listener, 'close');
    this.#listener.close();
    this.dropConnections();
    await closed;
    return this.store.save();
  }

  dropConnections(): void {
    for (const connection of this.#connections) connection.destroy();
  }

  /** Returns false if no connection has this session. */
  dropConnection(session: bigint): boolean {
    const connection = this.#attached.get(session);
    connection?.destroy();
    return connection !== undefined;
  }

  /** Returns false if there is no such session. */
  expireSession(id: bigint): boolean {
    if (!this.store.sessions.get(id)) return false;
    this.store.closeSession(id);
    this.detach(id);
    return true;
  }

  addFault(id: number, fault: Fault): void {
    this.faults.add(id, fault);
    for (const connection of this.#connections) connection.resume();
  }

  liftFault(id: number): void {
    this.faults.lift(id);
    for (const connection of this.#connections) connection.resume();
  }

  /** Advances the clock; sessions expire and nodes are reaped as if the time had passed. */
  skipClock(ms: number): void {
    this.store.clock.skipped += ms;
    this.#expireSessions(this.store.clock.now());
    this.store.reap();
  }

  negotiate(timeout: number): number {
    const { minSessionTimeout, maxSessionTimeout } = this.options;
    return Math.min(Math.max(timeout, minSessionTimeout), maxSessionTimeout);
  }

  detach(sessionId: bigint): void {
    this.#attached.get(sessionId)?.close();
    this.#attached.delete(sessionId);
  }

  attach(sessionId: bigint, connection: Connection): void {
    this.#attached.set(sessionId, connection);
  }

  fourLetterWord(word: string): string | undefined {
    return fourLetterWord(word, this);
  }

  accept(socket: ClientStream): void {
    if (this.faults.refusesConnections) {
      socket.resetAndDestroy();
      return;
    }
    const connection = new Connection(socket, this);
    this.#connections.add(connection);
    socket.once('close', () => {
      this.#connections.delete(connection);
      const id = connection.session?.id;
      if (id !== undefined && this.#attached.get(id) === connection) this.#attached.delete(id);
    });
  }

  #scheduleExpiry(): void {
    const { tickTime } = this.options;
    const { clock } = this.store;
    this.#expiryTimer = setTimeout(
      () => {
        // After a pause of the thread or the machine, requests that clients sent meanwhile are read first.
        // The clock is read here, because a pause may also fall before the setImmediate callback.
        const now = clock.now();
        setImmediate(() => this.#expireSessions(now));
        this.#scheduleExpiry();
      },
      tickTime - (clock.now() % tickTime),
    ).unref();
  }

  #expireSessions(now: number): void {
    for (const { id } of this.store.sessions.expired(now)) this.expireSession(id);
  }
}
