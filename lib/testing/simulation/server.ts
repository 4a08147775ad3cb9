import type { ActiveFaults } from '../../embedded/faults.js';
import { Connection } from '../../embedded/connection.js';
import type { Replica, ReplicatedStore } from './replicated-store.js';
import type { SimulatedProcess } from './process.js';
import type { SimulatedStream } from './stream.js';

/** The parts of the ensemble that a server uses. */
interface Ensemble {
  readonly store: ReplicatedStore;
  /** The current connection of each session, on any server. */
  readonly connections: Map<bigint, Connection>;
  /** The faults of all servers. They are shared, so that a fault that loses one reply does so on one server only. */
  readonly faults: ActiveFaults;
  negotiate(timeout: number): number;
  startProcess(name: string): SimulatedProcess;
  /** Whether more than half of the servers run and are not paused. */
  readonly hasMajority: boolean;
  /** Records an event of a server in the trace. */
  note(server: string, event: string): void;
  /** Called when a server has started, crashed, paused or resumed. */
  serverChanged(): void;
}

/**
 * A server of the simulated ensemble. It keeps its data when it crashes.
 *
 * The ensemble needs a majority of servers that run and are not paused. Without a majority, the remaining servers
 * disconnect their clients, and no session expires. When there is a majority again, each session gets its full timeout,
 * as after the election of a new leader.
 *
 * @publicApi
 */
export class SimulatedServer {
  /** @internal */
  readonly traffic = { received: 0, sent: 0 };
  /** @internal */
  readonly store: Replica;
  readonly #connections = new Set<Connection>();
  #process: SimulatedProcess;
  #state: 'running' | 'stopped' | 'unreachable' = 'running';

  /** @internal */
  constructor(
    /** The address that clients connect to. */
    readonly address: string,
    private readonly ensemble: Ensemble,
  ) {
    this.#process = ensemble.startProcess(address);
    this.store = ensemble.store.addReplica(this);
  }

  /**
   * The current process of the server. A restart starts another process.
   *
   * @internal
   */
  get process(): SimulatedProcess {
    return this.#process;
  }

  /** The state of the server. A stopped server refuses connections; an unreachable server does not reply at all. */
  get state(): 'running' | 'stopped' | 'unreachable' {
    return this.#state;
  }

  /** @internal */
  get faults(): ActiveFaults {
    return this.ensemble.faults;
  }

  /**
   * Whether the server can take part in a majority: it runs and is not paused.
   *
   * @internal
   */
  get isUp(): boolean {
    return this.#state === 'running' && !this.#process.paused;
  }

  /** Whether the server serves clients: it runs, is not paused, and belongs to a majority. */
  get isServing(): boolean {
    return this.isUp && this.ensemble.hasMajority;
  }

  /** Pauses the process of the server, as SIGSTOP does, until {@link resume}. */
  pause(): void {
    this.#process.pause();
    this.ensemble.serverChanged();
  }

  /** Continues after {@link pause}. */
  resume(): void {
    this.#process.resume();
    this.ensemble.serverChanged();
  }

  /** Ends the server at once. With `silently` its clients are not notified, as when a machine loses power. */
  crash({ silently = false } = {}): void {
    if (this.#state !== 'running') return;
    this.#state = silently ? 'unreachable' : 'stopped';
    this.#process.crash({ silently });
    this.disconnect();
    this.ensemble.serverChanged();
  }

  /** Starts the server again after a crash, with its data. */
  restart(): void {
    if (this.#state === 'running') return;
    this.#state = 'running';
    this.ensemble.note(this.address, 'restarted');
    this.#process = this.ensemble.startProcess(this.address);
    this.store.restart();
    this.ensemble.serverChanged();
  }

  /**
   * Ends the connections of all clients.
   *
   * @internal
   */
  disconnect(): void {
    for (const connection of this.#connections) {
      connection.destroy();
      this.#removeConnection(connection);
    }
  }

  /**
   * Serves a new connection. Without a majority it ends the connection, as ZooKeeper does.
   *
   * @internal
   */
  accept(stream: SimulatedStream): void {
    if (!this.isServing) return void stream.destroy();
    const connection = new Connection(stream, this);
    this.#connections.add(connection);
    stream.once('close', () => this.#removeConnection(connection));
  }

  /** @internal */
  negotiate(timeout: number): number {
    return this.ensemble.negotiate(timeout);
  }

  /** @internal */
  attach(session: bigint, connection: Connection): void {
    this.ensemble.connections.set(session, connection);
  }

  /** @internal */
  detach(session: bigint): void {
    this.ensemble.connections.get(session)?.close();
    this.ensemble.connections.delete(session);
  }

  /**
   * Simulated clients send no four-letter words.
   *
   * @internal
   */
  fourLetterWord(): undefined {
    return undefined;
  }

  #removeConnection(connection: Connection): void {
    this.#connections.delete(connection);
    const id = connection.session?.id;
    const { connections } = this.ensemble;
    if (id !== undefined && connections.get(id) === connection) connections.delete(id);
  }
}
