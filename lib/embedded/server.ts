import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { setImmediate } from 'node:timers';
import { ActiveFaults, type Fault } from './faults.js';
import { Connection, type ConnectionHost } from './connection.js';
import { fourLetterWord, INITIAL_TRACE_MASK } from './four-letter-words.js';
import type { ServerOptions } from './options.js';
import { PROFILES, type ServerProfile } from './profiles.js';
import type { ClientStream } from './outbox.js';
import { toHex } from './store.js';
import { type SavedStore, Store, type TransactionLog } from './store.js';

/** A store, its timers, and the connections to it. */
export class ZooKeeperServer implements ConnectionHost {
  readonly store: Store;
  readonly faults = new ActiveFaults();
  readonly traffic = { received: 0, sent: 0 };
  readonly superDigest: string;
  readonly profile: ServerProfile;
  traceMask = INITIAL_TRACE_MASK;
  readonly connections = new Set<Connection>();
  readonly #attached = new Map<bigint, Connection>();
  readonly #listener: Server;
  #expiryTimer: NodeJS.Timeout | undefined;
  #reapTimer: NodeJS.Timeout | undefined;

  constructor(
    readonly options: ServerOptions,
    saved?: SavedStore,
    log?: TransactionLog,
  ) {
    this.superDigest = options.superDigest;
    this.profile = PROFILES[options.server];
    this.store = new Store(this.profile, options.tickTime, saved, log);
    this.#listener = createServer((socket) => this.accept(socket));
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  /** Resolves to the port when clients can connect. */
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
    this.#reapTimer = setInterval(
      () => this.store.reap(),
      this.options.containerCheckInterval,
    ).unref();
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

  /** Closes every connection, or that of one session. */
  dropConnections(session?: bigint): void {
    if (session === undefined) {
      for (const connection of this.connections) connection.destroy();
      return;
    }
    const connection = this.#attached.get(session);
    if (!connection) throw unknown('connection of session', session);
    connection.destroy();
  }

  expireSession(id: bigint): void {
    if (!this.store.sessions.get(id)) throw unknown('session', id);
    this.store.closeSession(id);
    this.detach(id);
  }

  addFault(id: number, fault: Fault): void {
    this.faults.add(id, fault);
    for (const connection of this.connections) connection.resume();
  }

  liftFault(id: number): void {
    this.faults.lift(id);
    for (const connection of this.connections) connection.resume();
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

  fourLetterWord(word: string, asking: Connection, argument?: Buffer): string | undefined {
    return fourLetterWord(word, this, asking, argument);
  }

  accept(socket: ClientStream): void {
    if (this.faults.refusesConnections) {
      socket.resetAndDestroy();
      return;
    }
    const connection = new Connection(socket, this);
    if (this.#isFull(connection.address)) {
      connection.destroy();
      return;
    }
    this.connections.add(connection);
    socket.once('close', () => {
      this.connections.delete(connection);
      const id = connection.session?.id;
      if (id !== undefined && this.#attached.get(id) === connection) this.#attached.delete(id);
    });
  }

  #isFull(address: string): boolean {
    const { maxClientCnxns } = this.options;
    if (maxClientCnxns === 0) return false;
    return (
      [...this.connections].filter((other) => other.address === address).length >= maxClientCnxns
    );
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

function unknown(what: string, session: bigint): Error {
  return new Error(`the embedded ZooKeeper has no ${what} ${toHex(session)}`);
}
