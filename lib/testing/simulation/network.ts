import type { Link } from './link.js';
import type { SimulatedProcess } from './process.js';
import type { Actor, Scheduler } from './scheduler.js';
import type { SimulatedServer } from './server.js';
import { type Packet, SimulatedStream } from './stream.js';

/** Milliseconds between two packets of one direction, at least. */
const STRICTLY_LATER = 1e-6;

interface ConnectionHost {
  readonly scheduler: Scheduler;
  readonly kernel: Actor;
  closed(connection: Connection): void;
}

/** Connections between processes and servers: latency, order, and the faults of links and servers. */
export class Network implements ConnectionHost {
  readonly #connections = new Set<Connection>();

  constructor(
    readonly scheduler: Scheduler,
    /** The owner of events that concern a machine and none of its processes. */
    readonly kernel: Actor,
    private readonly servers: readonly SimulatedServer[],
  ) {}

  /** What clients name the servers by. */
  get connectString(): string {
    return this.servers.map(({ address }) => address).join(',');
  }

  /** Lets the link's faults reach the connections of its process. */
  join(process: SimulatedProcess, note: (event: string) => void): void {
    process.link.attach({
      note,
      changed: () => this.#of(process, (connection) => connection.release()),
      broken: () => this.#of(process, (connection) => connection.reset()),
    });
  }

  /** Opens a connection; it fails later where nothing listens at the address. */
  connect(process: SimulatedProcess, address: string): SimulatedStream {
    const server = this.servers.find((each) => each.address === address);
    if (!server) throw new Error(`no simulated server listens at ${address}`);
    const connection = new Connection(this, process, server);
    this.#connections.add(connection);
    return connection.client;
  }

  /** @param silently the other ends do not learn of it */
  crashed(actor: SimulatedProcess, silently: boolean): void {
    for (const connection of [...this.#connections]) connection.crashed(actor, silently);
  }

  closed(connection: Connection): void {
    this.#connections.delete(connection);
  }

  #of(process: SimulatedProcess, act: (connection: Connection) => void): void {
    for (const connection of [...this.#connections]) {
      if (connection.process === process) act(connection);
    }
  }
}

/** One connection, which begins with a request for it to the server. */
class Connection {
  readonly client: SimulatedStream;
  readonly #server: SimulatedStream;
  /** The server's process when the connection was made: after a crash the server has another one. */
  readonly #serverProcess: SimulatedProcess;
  readonly #toServer: Channel;
  readonly #toClient: Channel;

  constructor(
    private readonly host: ConnectionHost,
    readonly process: SimulatedProcess,
    private readonly server: SimulatedServer,
  ) {
    const { link } = process;
    const { scheduler } = host;
    this.#serverProcess = server.process;
    this.#toServer = new Channel(scheduler, link, 'requests');
    this.#toClient = new Channel(scheduler, link, 'replies');
    this.client = this.#end(process, (packet) =>
      this.#toServer.send(this.#serverProcess, () => this.#server.receive(packet)),
    );
    this.#server = this.#end(this.#serverProcess, (packet) =>
      this.#toClient.send(process, () => this.client.receive(packet)),
    );
    this.#toServer.send(host.kernel, () => this.#requested());
  }

  release(): void {
    this.#toServer.release();
    this.#toClient.release();
  }

  /** Both ends learn that the connection broke; what was on its way is lost. */
  reset(): void {
    this.#toServer.drop();
    this.#toClient.drop();
    this.#toServer.send(this.#serverProcess, () => this.#server.receive('reset'));
    this.#toClient.send(this.process, () => this.client.receive('reset'));
  }

  crashed(actor: SimulatedProcess, silently: boolean): void {
    if (actor === this.process) {
      this.client.break();
      if (!silently) this.#toServer.send(this.#serverProcess, () => this.#server.receive('reset'));
    } else if (actor === this.#serverProcess) {
      this.#server.break();
      if (!silently) this.#toClient.send(this.process, () => this.client.receive('reset'));
    }
  }

  /** The request for the connection has arrived. */
  #requested(): void {
    const { link } = this.process;
    if (
      this.server.process !== this.#serverProcess ||
      link.refuses ||
      this.server.state === 'stopped'
    ) {
      this.#server.break();
      this.#toClient.send(this.process, () => this.client.break(refusal(this.server.address)));
    } else if (this.server.state === 'running') {
      const { scheduler } = this.host;
      const accept = () => this.server.accept(this.#server);
      scheduler.schedule(this.#serverProcess, scheduler.time, 'message', accept);
    }
  }

  #end(owner: SimulatedProcess, send: (packet: Packet) => void): SimulatedStream {
    return new SimulatedStream({
      send,
      closed: () => {
        if (this.client.destroyed && this.#server.destroyed) this.host.closed(this);
      },
      timer: (ms, fire) => {
        const { scheduler } = this.host;
        const event = scheduler.schedule(owner, scheduler.time + ms, 'timer', fire);
        return () => (event.cancelled = true);
      },
    });
  }
}

/** One direction of a connection. Packets arrive in the order in which they were sent, or not at all. */
class Channel {
  #lastArrival = 0;
  /** What a cut holds back. */
  #held: { readonly receiver: Actor; readonly arrive: () => void }[] = [];
  #releasing = false;
  /** Packets of earlier epochs were lost on their way. */
  #epoch = 0;

  constructor(
    private readonly scheduler: Scheduler,
    private readonly link: Link,
    private readonly way: 'requests' | 'replies',
  ) {}

  send(receiver: Actor, arrive: () => void): void {
    const epoch = this.#epoch;
    this.scheduler.schedule(receiver, this.#arrival(), 'message', () => {
      if (epoch !== this.#epoch) return;
      if (this.#held.length > 0 || this.link.isCut(this.way)) this.#held.push({ receiver, arrive });
      else arrive();
    });
  }

  /** Lets what a cut held back arrive, and before everything that is sent from now on. */
  release(): void {
    const [first] = this.#held;
    if (!first || this.#releasing || this.link.isCut(this.way)) return;
    this.#releasing = true;
    this.scheduler.schedule(first.receiver, this.#arrival(), 'message', () => {
      this.#releasing = false;
      if (this.#held[0] !== first || this.link.isCut(this.way)) return;
      this.#held.shift();
      first.arrive();
      this.release();
    });
  }

  /** Loses what is on its way. */
  drop(): void {
    this.#epoch++;
    this.#held = [];
  }

  /** When a packet that leaves now arrives; no two at the same time. */
  #arrival(): number {
    const { time } = this.scheduler;
    this.#lastArrival = Math.max(this.#lastArrival + STRICTLY_LATER, time + this.link.delay());
    return this.#lastArrival;
  }
}

function refusal(address: string): Error {
  const error = new Error(`connect ECONNREFUSED ${address}`);
  return Object.assign(error, { code: 'ECONNREFUSED', syscall: 'connect' });
}
