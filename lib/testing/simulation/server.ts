import type { ActiveFaults } from '../../embedded/active-faults.js';
import { Connection, type ConnectionHost } from '../../embedded/connection.js';
import type { Replica, ReplicatedStore } from './replicated-store.js';
import type { SimulatedProcess } from './process.js';
import type { SimulatedStream } from './stream.js';

interface Ensemble {
  readonly store: ReplicatedStore;
  /** The connection of each session, on whichever server. */
  readonly attached: Map<bigint, Connection>;
  /** One list for all servers: a lost reply is lost once. */
  readonly faults: ActiveFaults;
  negotiate(timeout: number): number;
  startProcess(name: string): SimulatedProcess;
  /** Called when a server has crashed. */
  crashed(): void;
}

/**
 * A server of the simulated ensemble. It keeps its data when it crashes. While no server runs, sessions do
 * not expire; afterwards each has its whole timeout again, as after the election of a new leader.
 *
 * @publicApi
 */
export class SimulatedServer implements ConnectionHost {
  readonly traffic = { received: 0, sent: 0 };
  readonly store: Replica;
  readonly #connections = new Set<Connection>();
  #process: SimulatedProcess;
  #state: 'running' | 'stopped' | 'unreachable' = 'running';

  constructor(
    /** What clients connect to. */
    readonly address: string,
    private readonly ensemble: Ensemble,
  ) {
    this.#process = ensemble.startProcess(address);
    this.store = ensemble.store.replica(this);
  }

  /** The process that serves at present; after a restart it is another one. */
  get process(): SimulatedProcess {
    return this.#process;
  }

  /** `'stopped'` refuses connections, `'unreachable'` does not answer at all. */
  get state(): 'running' | 'stopped' | 'unreachable' {
    return this.#state;
  }

  get faults(): ActiveFaults {
    return this.ensemble.faults;
  }

  /** Whether the server runs and is not paused. */
  get isServing(): boolean {
    return this.#state === 'running' && !this.#process.paused;
  }

  /** Stops the process of the server, as SIGSTOP does. */
  pause(): void {
    this.#process.pause();
  }

  /** Continues after {@link pause}. */
  resume(): void {
    this.#process.resume();
  }

  /** Ends the server at once. With `silently` its clients do not notice, as when a machine loses its power. */
  crash({ silently = false } = {}): void {
    if (this.#state !== 'running') return;
    this.#state = silently ? 'unreachable' : 'stopped';
    this.#process.crash({ silently });
    for (const connection of this.#connections) {
      connection.destroy();
      this.#forget(connection);
    }
    this.ensemble.crashed();
  }

  /** Starts the server again, with the data that it had. */
  restart(): void {
    if (this.#state === 'running') return;
    this.#state = 'running';
    this.#process = this.ensemble.startProcess(this.address);
    this.store.restart();
  }

  accept(stream: SimulatedStream): void {
    const connection = new Connection(stream, this);
    this.#connections.add(connection);
    stream.once('close', () => this.#forget(connection));
  }

  negotiate(timeout: number): number {
    return this.ensemble.negotiate(timeout);
  }

  attach(session: bigint, connection: Connection): void {
    this.ensemble.attached.set(session, connection);
  }

  detach(session: bigint): void {
    this.ensemble.attached.get(session)?.close();
    this.ensemble.attached.delete(session);
  }

  /** Only sockets ask for status words. */
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
