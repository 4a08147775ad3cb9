import type { ActiveFaults } from '../../embedded/active-faults.js';
import { Connection } from '../../embedded/connection.js';
import type { Replica, ReplicatedStore } from './replicated-store.js';
import type { SimulatedProcess } from './process.js';
import type { SimulatedStream } from './stream.js';

interface Ensemble {
  readonly store: ReplicatedStore;
  /** The connection of each session, on any server. */
  readonly attached: Map<bigint, Connection>;
  /** Shared by all servers: a reply that a fault loses is lost once, whichever server sends it. */
  readonly faults: ActiveFaults;
  negotiate(timeout: number): number;
  startProcess(name: string): SimulatedProcess;
  /** Whether more than half of the servers run and are not paused. */
  readonly hasMajority: boolean;
  /** Records an event of a server in the trace. */
  note(server: string, event: string): void;
  /** Called when a server has started, stopped, paused or resumed. */
  changed(): void;
}

/**
 * A server of the simulated ensemble. It keeps its data when it crashes.
 *
 * The ensemble needs a majority of servers that run and are not paused. Without a majority, the other servers
 * drop their clients and no session expires. When there is a majority again, each session has its whole timeout,
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
    this.store = ensemble.store.replica(this);
  }

  /**
   * The present process of the server. A restart starts another one.
   *
   * @internal
   */
  get process(): SimulatedProcess {
    return this.#process;
  }

  /** The state of the server. A stopped server refuses connections; an unreachable one does not answer at all. */
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

  /** Whether the server answers clients: it runs, is not paused, and belongs to a majority. */
  get isServing(): boolean {
    return this.isUp && this.ensemble.hasMajority;
  }

  /** Stops the process of the server, as SIGSTOP does, until {@link resume}. */
  pause(): void {
    this.#process.pause();
    this.ensemble.changed();
  }

  /** Continues after {@link pause}. */
  resume(): void {
    this.#process.resume();
    this.ensemble.changed();
  }

  /** Ends the server at once. With `silently` its clients do not notice, as when a machine loses power. */
  crash({ silently = false } = {}): void {
    if (this.#state !== 'running') return;
    this.#state = silently ? 'unreachable' : 'stopped';
    this.#process.crash({ silently });
    this.disconnect();
    this.ensemble.changed();
  }

  /** Starts the server again after a crash, with its data. */
  restart(): void {
    if (this.#state === 'running') return;
    this.#state = 'running';
    this.ensemble.note(this.address, 'restarted');
    this.#process = this.ensemble.startProcess(this.address);
    this.store.restart();
    this.ensemble.changed();
  }

  /**
   * Ends the connections of all clients.
   *
   * @internal
   */
  disconnect(): void {
    for (const connection of this.#connections) {
      connection.destroy();
      this.#forget(connection);
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
    stream.once('close', () => this.#forget(connection));
  }

  /** @internal */
  negotiate(timeout: number): number {
    return this.ensemble.negotiate(timeout);
  }

  /** @internal */
  attach(session: bigint, connection: Connection): void {
    this.ensemble.attached.set(session, connection);
  }

  /** @internal */
  detach(session: bigint): void {
    this.ensemble.attached.get(session)?.close();
    this.ensemble.attached.delete(session);
  }

  /**
   * Simulated clients send no four-letter words.
   *
   * @internal
   */
  fourLetterWord(): undefined {
    return undefined;
  }

  #forget(connection: Connection): void {
    this.#connections.delete(connection);
    const id = connection.session?.id;
    const { attached } = this.ensemble;
    if (id !== undefined && attached.get(id) === connection) attached.delete(id);
  }
}
