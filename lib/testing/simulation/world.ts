import type { AsyncLocalStorage } from 'node:async_hooks';
import type { ZkClient } from '../../client/index.js';
import { ActiveFaults } from '../../embedded/active-faults.js';
import type { Connection } from '../../embedded/connection.js';
import { resolveOptions } from '../../embedded/options.js';
import { parseSessionId } from '../../embedded/session-id.js';
import { OpCode } from '../../protocol/index.js';
import { Network } from './network.js';
import { type CheckedOptions, milliseconds } from './options.js';
import { SimulatedProcess } from './process.js';
import { Random } from './random.js';
import { ReplicatedStore } from './replicated-store.js';
import { Scheduler } from './scheduler.js';
import { SimulatedServer } from './server.js';
import { type SimulatedZnode, snapshot, toHex } from './simulated-znode.js';

/**
 * A fault of a simulation or a note of its scenario.
 *
 * @publicApi
 */
export interface TraceEntry {
  /** Virtual milliseconds since the simulation started. */
  readonly at: number;
  /** The name of the process, or the address of the server. */
  readonly process: string;
  readonly event: string;
}

/** Options of one process of a simulation. */
export interface ProcessOptions {
  /** The rate of the clocks of the process, 0.5 to 2. A clock of rate 1.01 gains one per cent. Default 1. */
  clockRate?: number;
}

/**
 * The world of a simulation: processes, servers, the network between them, and virtual time.
 *
 * @publicApi
 */
export class World {
  /** Random numbers for the scenario. They depend on the seed only. */
  readonly random: Random;
  readonly servers: readonly SimulatedServer[];
  readonly trace: TraceEntry[] = [];
  /**
   * The process that the scenario itself runs in. It is never paused and never crashes.
   *
   * @internal
   */
  readonly scenario: SimulatedProcess;
  readonly #scheduler: Scheduler;
  readonly #contexts: AsyncLocalStorage<SimulatedProcess>;
  readonly #options: CheckedOptions;
  readonly #network: Network;
  readonly #store: ReplicatedStore;
  readonly #attached = new Map<bigint, Connection>();
  readonly #faults = new ActiveFaults();
  readonly #processes = new Map<string, SimulatedProcess>();
  readonly #internals: ConstructorParameters<typeof SimulatedProcess>[2];
  #lastId = 0;
  #lastFault = 0;
  #leaderless = false;

  /** @internal */
  constructor(
    options: CheckedOptions,
    random: Random,
    scheduler: Scheduler,
    contexts: AsyncLocalStorage<SimulatedProcess>,
  ) {
    this.#options = options;
    this.#scheduler = scheduler;
    this.#contexts = contexts;
    this.random = random.fork();
    const servers: SimulatedServer[] = [];
    this.servers = servers;
    this.#internals = {
      scheduler,
      random: random.fork(),
      contexts,
      network: undefined as never,
      note: (process, event) => this.#note(process, event),
    };
    this.scenario = this.#newProcess('scenario');
    this.#network = new Network(scheduler, this.scenario, servers);
    Object.assign(this.#internals, { network: this.#network });
    this.#store = contexts.run(
      this.scenario,
      () => new ReplicatedStore(options.tickTime, scheduler, random.fork(), options.lag),
    );
    const { minSessionTimeout, maxSessionTimeout } = resolveOptions({ tickTime: options.tickTime });
    const hasMajority = () => this.#hasMajority;
    for (let index = 1; index <= options.servers; index++) {
      const server = new SimulatedServer(`10.0.0.${index}:2181`, {
        store: this.#store,
        attached: this.#attached,
        faults: this.#faults,
        negotiate: (timeout) => Math.min(Math.max(timeout, minSessionTimeout), maxSessionTimeout),
        startProcess: (name) => this.#newProcess(name),
        get hasMajority() {
          return hasMajority();
        },
        note: (server, event) => this.#note(server, event),
        changed: () => this.#serversChanged(),
      });
      servers.push(server);
    }
    this.#tick();
  }

  /** Virtual milliseconds since the simulation started. */
  get now(): number {
    return this.#scheduler.time;
  }

  /**
   * Starts a process.
   *
   * @param name a name that no other process has, except one that has crashed
   * @throws Error if a process of this name is running; RangeError for a clock rate out of range
   */
  process(name: string, { clockRate = 1 }: ProcessOptions = {}): SimulatedProcess {
    const running = this.#processes.get(name);
    if (running && !running.crashed)
      throw new Error(`simulate: a process named "${name}" is already running`);
    if (!(clockRate >= 0.5 && clockRate <= 2)) {
      throw new RangeError(`simulate: clockRate must be from 0.5 to 2, got ${clockRate}`);
    }
    const process = this.#newProcess(name, clockRate);
    process.link.latency = this.#options.latency;
    this.#network.join(process, (event) => this.#note(name, event));
    this.#processes.set(name, process);
    return process;
  }

  /** Resolves after `ms` virtual milliseconds. The faults and clocks of processes do not affect the wait. */
  sleep(ms: number): Promise<void> {
    milliseconds('the time of sleep', ms, 0);
    return new Promise((resolve) => this.at(this.now + ms, resolve));
  }

  /** Calls `fn` at a virtual time, outside of all processes. If that time has passed, it schedules `fn` for now. */
  at(time: number, fn: () => void): void {
    milliseconds('the time of at', time, 0);
    if (typeof fn !== 'function')
      throw new TypeError(`simulate: at takes a function, got ${String(fn)}`);
    this.#scheduler.schedule(this.scenario, Math.max(time, this.now), 'call', () =>
      this.#contexts.run(this.scenario, fn),
    );
  }

  /** Adds an entry of the process whose code calls it to the trace, and changes the digest. */
  note(event: string): void {
    this.#note(this.#current.name, event);
  }

  /**
   * Ends the session of a client on the servers. The client learns of it as soon as its connection allows.
   *
   * @param client the client, or the id of its session in hexadecimal
   * @throws Error if the client has no session or its session has ended
   */
  expireSession(client: ZkClient | string): void {
    const session = sessionIdOf(client);
    const id = session === undefined ? undefined : parseSessionId(session);
    if (id === undefined) {
      throw new Error('simulate: the client has no session, because it is not connected');
    }
    if (!this.#store.committed.sessions.get(id)) {
      throw new Error(
        `simulate: the servers have no session 0x${session}; it has expired or was closed`,
      );
    }
    this.#note(this.#current.name, `session 0x${session} expired`);
    this.#expire(id);
  }

  /**
   * Loses one reply: the servers apply the next request of this kind and break its connection before they reply.
   *
   * @param op ZooKeeper's name of the operation
   * @param client the client that sends the request, or the id of its session in hexadecimal. Default: any client
   */
  loseReply(
    op: 'create' | 'delete' | 'setData' | 'getChildren2' | 'sync',
    client?: ZkClient | string,
  ): void {
    if (!Object.hasOwn(OpCode, op)) throw new TypeError(`simulate: no operation is called ${op}`);
    const id = client === undefined ? undefined : sessionIdOf(client);
    const session = id === undefined ? undefined : parseSessionId(id);
    this.#faults.add(++this.#lastFault, { kind: 'dropReply', op: OpCode[op], session });
    this.#note(this.#current.name, `reply to ${op} lost`);
  }

  /** Returns the znodes below a path, shorter paths first. Default: all znodes except ZooKeeper's own. */
  znodes(below = '/'): SimulatedZnode[] {
    const found: SimulatedZnode[] = [];
    const prefix = below === '/' ? '/' : `${below}/`;
    for (const [path, node] of this.#store.committed.tree.nodes) {
      if (!path.startsWith(prefix) || path === '/' || path.startsWith('/zookeeper')) continue;
      found.push(snapshot(path, node));
    }
    return found.sort((a, b) => a.path.length - b.path.length || (a.path < b.path ? -1 : 1));
  }

  /** Returns the children of a znode in no particular order; none if the znode does not exist. */
  children(parent: string): SimulatedZnode[] {
    const { nodes } = this.#store.committed.tree;
    const names = [...(nodes.get(parent)?.children ?? [])];
    const paths = names.map((name) => (parent === '/' ? `/${name}` : `${parent}/${name}`));
    return paths.map((path) => snapshot(path, nodes.get(path)!));
  }

  /** The number of watches on the servers. A server forgets the watches of a connection that ends. */
  get watchCount(): number {
    return this.servers.reduce((sum, { store }) => {
      return sum + store.tree.dataWatches.counts.total + store.tree.childWatches.counts.total;
    }, 0);
  }

  /** The ids of the sessions that the servers keep, in hexadecimal. */
  get sessionIds(): string[] {
    const { sessions } = this.#store.committed;
    return sessions.save().map(({ id }) => toHex(id));
  }

  /**
   * The names of the processes and servers that are paused.
   *
   * @internal
   */
  get paused(): string[] {
    const processes = [...this.#processes.values(), ...this.servers.map(({ process }) => process)];
    return processes.filter(({ paused, crashed }) => paused && !crashed).map(({ name }) => name);
  }

  get #current(): SimulatedProcess {
    return (
      this.#contexts.getStore() ?? (this.#scheduler.running as SimulatedProcess) ?? this.scenario
    );
  }

  /** Whether more than half of the servers run and are not paused. */
  get #hasMajority(): boolean {
    return this.servers.filter(({ isUp }) => isUp).length > this.servers.length / 2;
  }

  /** Ends all connections to servers that run, if there is no majority. */
  #serversChanged(): void {
    if (this.#hasMajority) return;
    this.#leaderless = true;
    for (const server of this.servers) if (server.isUp) server.disconnect();
  }

  /** Does the work of the leader once a tick: expires sessions and removes empty containers. */
  #tick(): void {
    const { tickTime } = this.#options;
    const next = (Math.floor(this.now / tickTime) + 1) * tickTime;
    this.at(next, () => {
      const { sessions, clock } = this.#store.committed;
      const now = clock.now();
      if (this.#leaderless) {
        if (!this.#hasMajority) return this.#tick();
        this.#leaderless = false;
        sessions.touchAll(now);
      } else {
        for (const { id } of sessions.expired(now)) this.#expire(id);
        this.#store.reap();
      }
      this.#tick();
    });
  }

  #expire(id: bigint): void {
    this.#store.closeSession(id);
    this.#attached.get(id)?.close();
    this.#attached.delete(id);
  }

  #newProcess(name: string, clockRate?: number): SimulatedProcess {
    return new SimulatedProcess(++this.#lastId, name, this.#internals, clockRate);
  }

  #note(process: string, event: string): void {
    const at = this.now;
    this.trace.push({ at, process, event });
    this.#scheduler.digest.number(at);
    this.#scheduler.digest.text(`${process} ${event}`);
  }
}

function sessionIdOf(client: ZkClient | string): string | undefined {
  return typeof client === 'string' ? client : client.sessionId;
}
