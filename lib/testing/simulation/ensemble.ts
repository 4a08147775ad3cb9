import { Connection } from '../../embedded/connection.js';
import { ActiveFaults } from '../../embedded/faults.js';
import { resolveOptions } from '../../embedded/options.js';
import type { ServerProfile } from '../../embedded/profiles.js';
import { toHex } from '../../embedded/store.js';
import type { InMemoryStream } from '../../embedded/stream.js';
import type { CheckedOptions } from './options.js';
import type { SimulatedProcess } from './process.js';
import type { Replica, ReplicatedStore } from './replicated-store.js';
import type { Event } from './scheduler.js';

/** The parts of the world that the ensemble uses. */
interface EnsembleContext {
  /** Calls `fn` at a virtual time. */
  at(time: number, fn: () => void): void;
  /** Records an event of a server in the trace. */
  note(server: string, event: string): void;
  startProcess(name: string): SimulatedProcess;
}

/** The servers of a simulation as one ensemble: its majority, and the work of its leader. */
export class SimulatedEnsemble {
  readonly servers: readonly SimulatedServer[];
  /** The faults of all servers. They are shared, so that a fault that loses one reply does so on one server only. */
  readonly faults = new ActiveFaults();
  /** The current connection of each session, on any server. */
  readonly connections = new Map<bigint, Connection>();
  /** The processes whose clients opened the sessions. */
  readonly owners = new Map<bigint, SimulatedProcess>();
  /** Milliseconds for which a server that is cut off from the others still answers reads. */
  readonly syncLimit: number;
  readonly #tickTime: number;
  readonly #sessionTimeouts: readonly [min: number, max: number];
  /** Whether the majority was lost and no tick with a majority has happened since. */
  #lostMajority = false;

  constructor(
    { servers, tickTime, syncLimit }: CheckedOptions,
    readonly store: ReplicatedStore,
    readonly context: EnsembleContext,
  ) {
    const { minSessionTimeout, maxSessionTimeout } = resolveOptions({ tickTime });
    this.#sessionTimeouts = [minSessionTimeout, maxSessionTimeout];
    this.#tickTime = tickTime;
    this.syncLimit = syncLimit * tickTime;
    this.servers = Array.from(
      { length: servers },
      (_, index) => new SimulatedServer(`10.0.0.${index + 1}:2181`, this),
    );
    this.#scheduleTick();
  }

  /** Whether more than half of the servers run, are not paused and reach each other. */
  get hasMajority(): boolean {
    return this.servers.filter(({ isUp }) => isUp).length > this.servers.length / 2;
  }

  negotiate(timeout: number): number {
    const [min, max] = this.#sessionTimeouts;
    return Math.min(Math.max(timeout, min), max);
  }

  /** Returns the existing sessions that the clients of a process opened, in the order of their first connections. */
  sessionsOf(process: SimulatedProcess): bigint[] {
    const { sessions } = this.store.committed;
    return [...this.owners].flatMap(([id, owner]) =>
      owner === process && sessions.get(id) ? [id] : [],
    );
  }

  /** Ends a session. */
  expire(id: bigint): void {
    this.store.closeSession(id);
    this.disconnectSession(id);
  }

  /** Disconnects the client of a session. A server that is cut off does not learn of it. */
  disconnectSession(id: bigint): void {
    for (const server of this.servers) server.disconnectSession(id);
    this.connections.delete(id);
  }

  /**
   * Disconnects the clients of the running servers if there is no majority. Called when a server has started, crashed,
   * paused, resumed, or its link to the other servers has changed.
   */
  serverChanged(): void {
    if (this.hasMajority) return;
    this.#lostMajority = true;
    for (const server of this.servers) if (server.isUp) server.disconnect();
  }

  /** Schedules the work that a leader does once in a tick: it expires sessions and deletes empty containers. */
  #scheduleTick(): void {
    const { store } = this;
    const next = (Math.floor(store.scheduler.time / this.#tickTime) + 1) * this.#tickTime;
    this.context.at(next, () => {
      const { sessions, clock } = store.committed;
      const now = clock.now();
      if (this.#lostMajority) {
        if (!this.hasMajority) return this.#scheduleTick();
        this.#lostMajority = false;
        sessions.touchAll(now);
      } else {
        for (const { id } of sessions.expired(now)) this.expire(id);
        store.deleteExpiredNodes();
      }
      this.#scheduleTick();
    });
  }
}

/**
 * A server of the simulated ensemble. It keeps its data when it crashes.
 *
 * The ensemble needs a majority of servers that run, are not paused and are not isolated. Without a majority, the
 * remaining servers disconnect their clients, and no session expires. When there is a majority again, each session gets
 * its full timeout, as after the election of a new leader.
 *
 * @publicApi
 */
export class SimulatedServer {
  /** @internal */
  readonly traffic = { received: 0, sent: 0 };
  /** @internal */
  readonly store: Replica;
  readonly #connections = new Map<Connection, SimulatedProcess>();
  #process: SimulatedProcess;
  #state: 'running' | 'stopped' | 'unreachable' = 'running';
  /** `'alone'`: isolated for longer than the sync limit. */
  #membership: 'member' | 'isolated' | 'alone' = 'member';
  #syncTimer: Event | undefined;

  /** @internal */
  constructor(
    /** The address that clients connect to. */
    readonly address: string,
    private readonly ensemble: SimulatedEnsemble,
  ) {
    this.#process = ensemble.context.startProcess(address);
    this.store = ensemble.store.addReplica(this);
  }

  /** The current process of the server. A restart starts another process. @internal */
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

  /** The ids of the sessions whose clients are connected to this server, in hexadecimal. */
  get sessionIds(): string[] {
    return [...this.#connections.keys()].flatMap(({ session }) =>
      session ? [toHex(session.id)] : [],
    );
  }

  /** Whether the server is cut off from the other servers, by {@link isolate}. */
  get isolated(): boolean {
    return this.#membership !== 'member';
  }

  /** @internal */
  get profile(): ServerProfile {
    return this.ensemble.store.profile;
  }

  /** Whether the server believes that there is a leader. @internal */
  get hasLeader(): boolean {
    return this.isServing || this.#membership === 'isolated';
  }

  /** @internal */
  get reachesLeader(): boolean {
    return !this.isolated;
  }

  /** Whether the server can take part in a majority: it runs, is not paused and not isolated. @internal */
  get isUp(): boolean {
    return this.#state === 'running' && !this.#process.paused && !this.isolated;
  }

  /** Whether the server serves clients: it runs, is not paused or isolated, and belongs to a majority. */
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
    this.ensemble.context.note(this.address, 'restarted');
    this.#process = this.ensemble.context.startProcess(this.address);
    if (this.isolated) this.#membership = 'alone';
    this.store.restart();
    this.ensemble.serverChanged();
  }

  /**
   * Cuts the server off from the other servers until {@link rejoin}; its clients still reach it. For `syncLimit` ticks,
   * as a follower that has not noticed the loss of its leader, it answers reads from data that no longer change. It
   * answers neither writes and syncs nor the later requests of the same client, and new clients get no session. The
   * other servers hear nothing of its clients and expire their sessions. After `syncLimit` ticks the server
   * disconnects its clients and refuses others.
   *
   * @throws Error if the ensemble has no other server
   */
  isolate(): void {
    if (this.ensemble.servers.length === 1) {
      throw new Error(
        'simulate: isolate() needs other servers; set the option servers to 2 or more',
      );
    }
    if (this.isolated) return;
    this.#membership = this.#state === 'running' ? 'isolated' : 'alone';
    this.ensemble.context.note(this.address, 'isolated');
    const { scheduler } = this.ensemble.store;
    const limit = scheduler.time + this.ensemble.syncLimit;
    this.#syncTimer = scheduler.schedule(this.#process, limit, 'timer', () => {
      this.#membership = 'alone';
      this.disconnect();
    });
    this.ensemble.serverChanged();
  }

  /**
   * Ends {@link isolate}. The server applies the writes that it missed, disconnects the clients whose sessions have ended
   * or moved to another server, and answers the requests that it could not answer.
   */
  rejoin(): void {
    if (!this.isolated) return;
    this.#membership = 'member';
    if (this.#syncTimer) this.#syncTimer.cancelled = true;
    this.ensemble.context.note(this.address, 'rejoined');
    if (this.#state === 'running') this.store.catchUp();
    const { store, connections } = this.ensemble;
    for (const connection of this.#connections.keys()) {
      const id = connection.session?.id;
      if (id !== undefined && connections.get(id) !== connection) connection.close();
      else {
        const { scheduler } = store;
        scheduler.schedule(this.#process, scheduler.time, 'message', () => connection.resume());
      }
    }
    this.ensemble.serverChanged();
  }

  /**
   * Delays the writes of other servers on this server until the returned function is called. The server still applies
   * them before it answers a write or a `sync`.
   */
  fallBehind(): () => void {
    this.ensemble.context.note(this.address, 'falls behind');
    const end = this.store.fallBehind();
    return () => {
      this.ensemble.context.note(this.address, 'catches up');
      end();
    };
  }

  /**
   * Disconnects the client of a session if it is connected to this server and the server can know that the session has
   * ended or moved.
   *
   * @internal
   */
  disconnectSession(session: bigint): void {
    const connection = this.ensemble.connections.get(session);
    if (!this.isolated && connection && this.#connections.has(connection)) connection.close();
  }

  /** Ends the connections of all clients. @internal */
  disconnect(): void {
    for (const connection of this.#connections.keys()) {
      connection.destroy();
      this.#removeConnection(connection);
    }
  }

  /**
   * Serves a new connection. Without a majority it ends the connection, as ZooKeeper does, or refuses the handshake, as
   * ClickHouse Keeper does. A server that was isolated a short time ago does not know yet that it has no majority.
   *
   * @internal
   */
  accept(stream: InMemoryStream, process: SimulatedProcess): void {
    const { refusesHandshakeWithoutMajority } = this.profile;
    if (!this.hasLeader && !refusesHandshakeWithoutMajority) return void stream.destroy();
    const connection = new Connection(stream, this);
    this.#connections.set(connection, process);
    stream.once('close', () => this.#removeConnection(connection));
  }

  /** @internal */
  negotiate(timeout: number): number {
    return this.ensemble.negotiate(timeout);
  }

  /** @internal */
  attach(session: bigint, connection: Connection): void {
    this.ensemble.connections.set(session, connection);
    this.ensemble.owners.set(session, this.#connections.get(connection)!);
  }

  /** @internal */
  detach(session: bigint): void {
    this.ensemble.disconnectSession(session);
  }

  /** Simulated clients send no four-letter words. @internal */
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
