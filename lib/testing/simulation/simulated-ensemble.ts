import type { Connection } from '../../embedded/connection.js';
import { ActiveFaults } from '../../embedded/faults.js';
import { resolveOptions } from '../../embedded/options.js';
import type { CheckedOptions } from './options.js';
import type { SimulatedProcess } from './process.js';
import type { ReplicatedStore } from './replicated-store.js';
import { SimulatedServer } from './server.js';

/** The parts of the world that the ensemble uses. */
interface EnsembleContext {
  /** Virtual milliseconds since the simulation started. */
  now(): number;
  /** Calls `fn` at a virtual time. */
  at(time: number, fn: () => void): void;
  /** Records a fault in the trace. */
  note(server: string, event: string): void;
  startProcess(name: string): SimulatedProcess;
}

/** The servers of a simulation as one ensemble: its majority, and the work of its leader. */
export class SimulatedEnsemble {
  /** Faults of single requests on all servers. */
  readonly faults = new ActiveFaults();
  readonly #connections = new Map<bigint, Connection>();
  readonly #owners = new Map<bigint, SimulatedProcess>();
  /** Whether the majority was lost and no tick with a majority has happened since. */
  #lostMajority = false;

  /** @param servers receives the servers */
  constructor(
    private readonly options: CheckedOptions,
    private readonly store: ReplicatedStore,
    private readonly servers: SimulatedServer[],
    private readonly context: EnsembleContext,
  ) {
    const { tickTime, syncLimit } = options;
    const { minSessionTimeout, maxSessionTimeout } = resolveOptions({ tickTime });
    const hasMajority = () => this.#hasMajority;
    for (let index = 1; index <= options.servers; index++) {
      const server = new SimulatedServer(`10.0.0.${index}:2181`, {
        store,
        connections: this.#connections,
        owners: this.#owners,
        faults: this.faults,
        negotiate: (timeout) => Math.min(Math.max(timeout, minSessionTimeout), maxSessionTimeout),
        startProcess: (name) => context.startProcess(name),
        hasOthers: options.servers > 1,
        syncLimit: syncLimit * tickTime,
        disconnectSession: (id) => this.#disconnectSession(id),
        get hasMajority() {
          return hasMajority();
        },
        note: (name, event) => context.note(name, event),
        serverChanged: () => this.#serverChanged(),
      });
      servers.push(server);
    }
    this.#scheduleTick();
  }

  /** Returns the existing sessions that the clients of a process opened, in the order of their first connections. */
  sessionsOf(process: SimulatedProcess): bigint[] {
    const { sessions } = this.store.committed;
    return [...this.#owners].flatMap(([id, owner]) =>
      owner === process && sessions.get(id) ? [id] : [],
    );
  }

  /** Ends a session. */
  expire(id: bigint): void {
    this.store.closeSession(id);
    this.#disconnectSession(id);
  }

  /** Whether more than half of the servers run, are not paused and reach each other. */
  get #hasMajority(): boolean {
    return this.servers.filter(({ isUp }) => isUp).length > this.servers.length / 2;
  }

  /** Disconnects the clients of the running servers if there is no majority. */
  #serverChanged(): void {
    if (this.#hasMajority) return;
    this.#lostMajority = true;
    for (const server of this.servers) if (server.isUp) server.disconnect();
  }

  /** Schedules the work that a leader does once in a tick: it expires sessions and deletes empty containers. */
  #scheduleTick(): void {
    const { tickTime } = this.options;
    const next = (Math.floor(this.context.now() / tickTime) + 1) * tickTime;
    this.context.at(next, () => {
      const { sessions, clock } = this.store.committed;
      const now = clock.now();
      if (this.#lostMajority) {
        if (!this.#hasMajority) return this.#scheduleTick();
        this.#lostMajority = false;
        sessions.touchAll(now);
      } else {
        for (const { id } of sessions.expired(now)) this.expire(id);
        this.store.deleteExpiredNodes();
      }
      this.#scheduleTick();
    });
  }

  #disconnectSession(id: bigint): void {
    for (const server of this.servers) server.disconnectSession(id);
    this.#connections.delete(id);
  }
}
