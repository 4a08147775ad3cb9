import type { AsyncLocalStorage } from 'node:async_hooks';
import type { ZkClient } from '../../client/index.js';
import { SUPER } from '../../embedded/acl.js';
import type { Caller, DataTree, Transaction } from '../../embedded/data-tree.js';
import { PROFILES } from '../../embedded/profiles.js';
import { toHex } from '../../embedded/store.js';
import type { Znode } from '../../embedded/znode.js';
import { OpCode } from '../../protocol/index.js';
import type { Digest } from './digest.js';
import { SimulatedEnsemble, type SimulatedServer } from './ensemble.js';
import { Network } from './network.js';
import {
  type CheckedOptions,
  checkNames,
  checkNumber,
  checkProcessName,
  checkType,
  formatValue,
  type ProcessOptions,
  sessionOf,
} from './options.js';
import { type ProcessContext, SimulatedProcess } from './process.js';
import { WALL_CLOCK_START } from './process-time.js';
import { Random } from './random.js';
import { ReplicatedStore } from './replicated-store.js';
import { type Event, Scheduler } from './scheduler.js';

/**
 * An entry of the trace of a simulation: a fault, or a note of the scenario.
 *
 * @publicApi
 */
export interface TraceEntry {
  /** Virtual milliseconds since the simulation started. */
  readonly at: number;
  /** The name of the process, or the address of the server. */
  readonly process: string;
  /** Describes the fault, or is the text of the note. */
  readonly event: string;
}

/**
 * A committed znode. Servers that lag behind may not have it yet.
 *
 * @publicApi
 */
export interface SimulatedZnode {
  readonly path: string;
  readonly data: Buffer;
  /** The id of the session that owns an ephemeral node, in hexadecimal; undefined for other nodes. */
  readonly session: string | undefined;
  /** The id of the transaction that created the node. */
  readonly czxid: number;
  /** When the node was created, in virtual milliseconds since the simulation started. */
  readonly created: number;
  /** When the data of the node was last changed, in virtual milliseconds since the simulation started. */
  readonly modified: number;
}

/** The version of a znode that every version matches. */
const ANY_VERSION = -1;

/** An operator, who may change every znode. */
const OPERATOR: Caller = { session: 0n, identities: [SUPER] };

const PROCESS_OPTIONS: ReadonlySet<string> = new Set([
  'clockRate',
] satisfies (keyof ProcessOptions)[]);

/**
 * The world of a simulation: its processes, its servers, the network between them, and virtual time.
 *
 * @publicApi
 */
export class World {
  /** A source of random numbers for the scenario. The numbers depend on the seed only. */
  readonly random: Random;
  /** The servers of the ensemble. */
  readonly servers: readonly SimulatedServer[];
  /** The faults and notes so far. */
  readonly trace: TraceEntry[] = [];
  /**
   * Whether `explore()` may inject a fault now. A scenario sets it to false while it prepares or checks something that
   * no fault should disturb. Default true.
   */
  exploring = true;
  /** The process in which the scenario runs. It is never paused and never crashes. @internal */
  readonly scenario: SimulatedProcess;
  readonly #scheduler: Scheduler;
  readonly #contexts: AsyncLocalStorage<SimulatedProcess>;
  readonly #options: CheckedOptions;
  readonly #network: Network;
  readonly #store: ReplicatedStore;
  readonly #ensemble: SimulatedEnsemble;
  readonly #processes = new Map<string, SimulatedProcess>();
  readonly #processContext: ProcessContext;
  #lastProcessId = 0;
  #lastFaultId = 0;

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
    this.#processContext = {
      scheduler,
      random: random.fork(),
      contexts,
      network: undefined as never,
      note: (process, event) => this.#note(process, event),
    };
    this.scenario = this.#newProcess('scenario');
    this.#store = contexts.run(
      this.scenario,
      () =>
        new ReplicatedStore(
          options.tickTime,
          scheduler,
          random.fork(),
          options.lag,
          PROFILES[options.server],
        ),
    );
    this.#ensemble = new SimulatedEnsemble(options, this.#store, {
      at: (time, fn) => this.at(time, fn),
      note: (server, event) => this.#note(server, event),
      startProcess: (name) => this.#newProcess(name),
    });
    this.servers = this.#ensemble.servers;
    this.#network = new Network(scheduler, this.scenario, this.servers);
    Object.assign(this.#processContext, { network: this.#network });
  }

  /** Virtual milliseconds since the simulation started. */
  get now(): number {
    return this.#scheduler.time;
  }

  /**
   * Starts a process.
   *
   * @param name a name that no running process has
   * @throws Error if a process of this name is running; TypeError for an empty or reserved name or an unknown option;
   *   RangeError for a clock rate out of range
   */
  process(name: string, options: ProcessOptions = {}): SimulatedProcess {
    const servers = this.servers.map(({ address }) => address);
    checkProcessName(name, [this.scenario.name, ...servers]);
    checkNames('process()', options, PROCESS_OPTIONS);
    const { clockRate = 1 } = options;
    const running = this.#processes.get(name);
    if (running && !running.crashed)
      throw new Error(
        `simulate: a process named "${name}" is already running; choose another name or crash it first`,
      );
    checkNumber('clockRate', clockRate, 0.5, 2);
    const process = this.#newProcess(name, clockRate);
    process.link.latency = this.#options.latency;
    this.#network.attachLink(process, (event) => this.#note(name, event));
    this.#processes.set(name, process);
    return process;
  }

  /** The processes that are running. */
  get processes(): SimulatedProcess[] {
    return [...this.#processes.values()].filter(({ crashed }) => !crashed);
  }

  /** Returns the ids of the existing sessions of a process, in hexadecimal. The latest one is the last. */
  sessionsOf(process: SimulatedProcess): string[] {
    return this.#ensemble.sessionsOf(process).map(toHex);
  }

  /** Resolves after `ms` virtual milliseconds. The faults and clocks of processes do not affect the wait. */
  sleep(ms: number): Promise<void> {
    checkNumber('the time of sleep()', ms, 0);
    return new Promise((resolve) => this.at(this.now + ms, resolve));
  }

  /** Calls `fn` at a virtual time, outside of all processes. A time in the past means now. */
  at(time: number, fn: () => void): void {
    checkNumber('the time of at()', time, 0);
    checkType('the callback of at()', fn, 'function');
    this.#scheduler.schedule(this.scenario, Math.max(time, this.now), 'call', () =>
      this.#contexts.run(this.scenario, fn),
    );
  }

  /**
   * Adds an entry to the trace, with the process whose code calls this method. The entry changes the digest.
   *
   * @throws TypeError if `event` is not a string
   */
  note(event: string): void {
    checkType('the text of note()', event, 'string');
    const { name } = this.#current;
    this.#scheduler.behaviour.addText(`${name} ${event}`);
    this.#note(name, event);
  }

  /**
   * Ends the session of a client on the servers. They notify the client as soon as the network allows.
   *
   * @param client the client, or the id of its session in hexadecimal
   * @throws Error if the client has no session or its session has ended; TypeError for an id that is not hexadecimal
   */
  expireSession(client: ZkClient | string): void {
    const { id, session } = sessionOf(client, 'expireSession');
    if (!this.#store.committed.sessions.get(id)) {
      throw new Error(`simulate: the servers have no session ${session}; it expired or was closed`);
    }
    this.#note(this.#current.name, `session ${session} expired`);
    this.#ensemble.expire(id);
  }

  /**
   * Loses one reply: the servers apply the next request of this kind, but break its connection instead of replying.
   * Returns the function that cancels the fault if there has been no such request yet.
   *
   * @param op the name of the operation in ZooKeeper
   * @param client the client that sends the request, or the id of its session in hexadecimal. Default: any client
   * @throws TypeError if ZooKeeper has no such operation, or for an id that is not hexadecimal; Error if the client has
   *   no session
   */
  loseReply(op: keyof typeof OpCode, client?: ZkClient | string): () => void {
    if (!Object.hasOwn(OpCode, op))
      throw new TypeError(
        `simulate: the operation of loseReply() must be one of ZooKeeper, such as 'create', got ${formatValue(op)}`,
      );
    const session = client === undefined ? undefined : sessionOf(client, 'loseReply').id;
    const id = ++this.#lastFaultId;
    this.#ensemble.faults.add(id, { kind: 'dropReply', op: OpCode[op], session });
    this.#note(this.#current.name, `reply to ${op} lost`);
    return () => this.#ensemble.faults.lift(id);
  }

  /**
   * Deletes a znode without children, as an operator does. Does nothing if it does not exist.
   *
   * @throws Error if it has children
   */
  deleteZnode(path: string): void {
    this.#writeAsOperator(path, `${path} deleted`, (tree, caller, at) =>
      tree.delete(path, ANY_VERSION, caller, at),
    );
  }

  /** Changes the data of a znode, as an operator does. Does nothing if it does not exist. */
  setZnodeData(path: string, data: Buffer): void {
    this.#writeAsOperator(path, `${path} changed`, (tree, caller, at) =>
      tree.setData(path, data, ANY_VERSION, caller, at),
    );
  }

  #writeAsOperator(
    path: string,
    event: string,
    change: (tree: DataTree, caller: Caller, at: Transaction) => void,
  ): void {
    if (!this.#store.committed.tree.nodes.has(path)) return;
    this.#note(this.#current.name, event);
    this.#store.commit((tree, at) => change(tree, OPERATOR, at));
  }

  /** Returns the znodes below a path, shorter paths first. Default: all znodes except those of the servers. */
  znodes(below = '/'): SimulatedZnode[] {
    const found: SimulatedZnode[] = [];
    const prefix = below === '/' ? '/' : `${below}/`;
    const { systemNodes } = this.#store.profile;
    for (const [path, node] of this.#store.committed.tree.nodes) {
      if (!path.startsWith(prefix) || path === '/' || systemNodes.has(path)) continue;
      found.push(snapshot(path, node));
    }
    return found.sort((a, b) => a.path.length - b.path.length || (a.path < b.path ? -1 : 1));
  }

  /** Returns the children of a znode in no particular order; an empty list if the znode does not exist. */
  children(parent: string): SimulatedZnode[] {
    const { nodes } = this.#store.committed.tree;
    const names = [...(nodes.get(parent)?.children ?? [])];
    const paths = names.map((name) => (parent === '/' ? `/${name}` : `${parent}/${name}`));
    return paths.map((path) => snapshot(path, nodes.get(path)!));
  }

  /** The number of watches on the servers. When a connection ends, its server removes the watches of the connection. */
  get watchCount(): number {
    return this.servers.reduce((sum, { store }) => {
      return sum + store.tree.dataWatches.counts.total + store.tree.childWatches.counts.total;
    }, 0);
  }

  /** The ids of the sessions that exist on the servers, in hexadecimal. */
  get sessionIds(): string[] {
    return this.#store.committed.sessions.save().map(({ id }) => toHex(id));
  }

  /** The names of the processes and servers that are paused or busy. @internal */
  get stoppedNames(): string[] {
    const processes = [...this.#processes.values(), ...this.servers.map(({ process }) => process)];
    const isBusy = (process: SimulatedProcess) => process.busyUntil > this.#options.limit;
    return processes
      .filter((process) => !process.crashed && (process.paused || isBusy(process)))
      .map(({ name }) => name);
  }

  get #current(): SimulatedProcess {
    return (
      this.#contexts.getStore() ?? (this.#scheduler.running as SimulatedProcess) ?? this.scenario
    );
  }

  #newProcess(name: string, clockRate?: number): SimulatedProcess {
    return new SimulatedProcess(++this.#lastProcessId, name, this.#processContext, clockRate);
  }

  /**
   * Calls `listener` before each event. If it returns functions, they are called before the event, outside of all
   * processes; `listener` is called again before the event then.
   *
   * @internal
   */
  beforeEachEvent(listener: (event: Event) => (() => void) | undefined): void {
    this.#scheduler.beforeEvent = (event) => {
      const act = listener(event);
      if (!act) return false;
      this.#scheduler.scheduleBefore(event, this.scenario, () =>
        this.#contexts.run(this.scenario, act),
      );
      return true;
    };
  }

  /** The longest timeout of the existing sessions, in milliseconds; 0 if there are none. @internal */
  get longestSessionTimeout(): number {
    return Math.max(0, ...this.#store.committed.sessions.save().map(({ timeout }) => timeout));
  }

  /** @internal */
  get behaviour(): Digest {
    return this.#scheduler.behaviour;
  }

  #note(process: string, event: string): void {
    if (this.#scheduler.ended) return;
    const at = this.now;
    this.trace.push({ at, process, event });
    this.#scheduler.digest.addNumber(at);
    this.#scheduler.digest.addText(`${process} ${event}`);
  }
}

/** Returns a snapshot of a znode. Scenarios list many znodes, so the data is copied only when it is read. */
function snapshot(path: string, { czxid, ctime, mtime, owner, data }: Znode): SimulatedZnode {
  return {
    path,
    czxid,
    created: ctime - WALL_CLOCK_START,
    modified: mtime - WALL_CLOCK_START,
    get data() {
      return Buffer.from(data ?? []);
    },
    get session() {
      return owner === 0n ? undefined : toHex(owner);
    },
  };
}
