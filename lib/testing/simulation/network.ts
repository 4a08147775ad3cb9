import type { Link } from './link.js';
import type { SimulatedProcess } from './process.js';
import type { Actor, Scheduler } from './scheduler.js';
import type { SimulatedServer } from './server.js';
import { type Packet, SimulatedStream } from './stream.js';

/** The least number of milliseconds between two packets of one direction. */
const STRICTLY_LATER = 1e-6;

/** Milliseconds after which a machine sends a packet again that was not acknowledged. */
const RETRANSMISSION = 1000;

interface ConnectionHost {
  readonly scheduler: Scheduler;
  readonly kernel: Actor;
  closed(connection: Connection): void;
}

/** The connections between processes and servers, with their latency, their order and their faults. */
export class Network implements ConnectionHost {
  readonly #connections = new Set<Connection>();

  constructor(
    readonly scheduler: Scheduler,
    /** The owner of events that concern a machine rather than one of its processes. */
    readonly kernel: Actor,
    private readonly servers: readonly SimulatedServer[],
  ) {}

  /** The addresses of all servers, separated by commas. */
  get connectString(): string {
    return this.servers.map(({ address }) => address).join(',');
  }

  /** Applies the faults of a process's link to the connections of that process. */
  join(process: SimulatedProcess, note: (event: string) => void): void {
    process.link.attach({
      note,
      changed: () => this.#of(process, (connection) => connection.release()),
      broken: () => this.#of(process, (connection) => connection.reset()),
    });
  }

  /** Opens a connection to a server. The connection breaks later if the server does not accept it. */
  connect(process: SimulatedProcess, address: string): SimulatedStream {
    const server = this.servers.find((each) => each.address === address);
    if (!server) throw new Error(`no simulated server listens at ${address}`);
    const connection = new Connection(this, process, server);
    this.#connections.add(connection);
    return connection.client;
  }

  /**
   * Ends the connections of a process that has crashed.
   *
   * @param silently whether the other ends do not learn that the connections ended
   */
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

/** One connection. The kernel of a machine completes handshakes while the server's process is paused. */
class Connection {
  readonly client: SimulatedStream;
  #server: SimulatedStream | undefined;
  /** The process of the server that accepts the connection. A restart of the server starts another process. */
  #serverProcess: SimulatedProcess | undefined;
  readonly #toServer: Channel;
  readonly #toClient: Channel;
  /** Packets that the client wrote before it knew that the connection was established. */
  #early: Packet[] | undefined = [];

  constructor(
    private readonly host: ConnectionHost,
    readonly process: SimulatedProcess,
    private readonly server: SimulatedServer,
  ) {
    this.#toServer = new Channel(host.scheduler, process.link, 'requests');
    this.#toClient = new Channel(host.scheduler, process.link, 'replies');
    this.client = this.#end(process, (packet) => {
      if (this.#early) this.#early.push(packet);
      else this.#sendToServer(packet);
    });
    this.#toServer.send(host.kernel, () => this.#requested());
  }

  release(): void {
    this.#toServer.release();
    this.#toClient.release();
  }

  /** Breaks the connection at both ends. Packets on their way are lost. */
  reset(): void {
    this.#toServer.drop();
    this.#toClient.drop();
    this.#sendToServer('reset');
    this.#sendToClient('reset');
  }

  crashed(actor: SimulatedProcess, silently: boolean): void {
    if (actor === this.process) {
      this.client.vanish();
      if (!silently) this.#sendToServer('reset');
    } else if (actor === this.#serverProcess) {
      this.#server?.vanish();
      if (!silently) this.#sendToClient('reset');
    }
  }

  /** Called when the first packet of the handshake arrives at the server. */
  #requested(): void {
    if (this.client.destroyed) return;
    const { address, state } = this.server;
    if (state === 'unreachable') {
      this.#retransmit(() => this.#requested());
    } else if (state === 'stopped' || this.process.link.refuses) {
      this.#toClient.send(this.process, () => this.client.break(refusal(address)));
    } else {
      this.#serverProcess = this.server.process;
      this.#toClient.send(this.host.kernel, () => this.#established());
    }
  }

  /** Called when the second packet arrives at the client. The third packet makes the server accept the connection. */
  #established(): void {
    if (this.client.destroyed) return;
    const { scheduler } = this.host;
    const process = this.#serverProcess!;
    const server = (this.#server = this.#end(process, (packet) => {
      // The ensemble may end a session while the server that has the connection is paused.
      const { time } = scheduler;
      const send = () => this.#sendToClient(packet);
      if (process.paused) scheduler.schedule(process, time, 'message', send);
      else send();
    }));
    // The connection may break before the server accepts it and adds a listener.
    server.on('error', () => {});
    this.#toServer.send(process, () => this.server.accept(server));
    scheduler.schedule(this.process, scheduler.time, 'message', () => {
      const early = this.#early!;
      this.#early = undefined;
      for (const packet of early) this.#sendToServer(packet);
    });
  }

  #sendToServer(packet: Packet): void {
    const process = this.#serverProcess;
    if (process?.crashed) this.#toServer.send(this.host.kernel, () => this.#unknownToServer());
    else if (process) this.#toServer.send(process, () => this.#server?.receive(packet));
  }

  #sendToClient(packet: Packet): void {
    this.#toClient.send(this.process, () => this.client.receive(packet));
  }

  /** Called when a packet of the client arrives at the server's machine after the server's process has crashed. */
  #unknownToServer(): void {
    if (this.client.destroyed) return;
    if (this.server.state === 'unreachable') this.#retransmit(() => this.#unknownToServer());
    else this.#sendToClient('reset');
  }

  #retransmit(arrive: () => void): void {
    const { scheduler, kernel } = this.host;
    scheduler.schedule(kernel, scheduler.time + RETRANSMISSION, 'message', () =>
      this.#toServer.send(kernel, arrive),
    );
  }

  #end(owner: SimulatedProcess, send: (packet: Packet) => void): SimulatedStream {
    return new SimulatedStream({
      send,
      closed: () => {
        if (this.client.destroyed && this.#server?.destroyed !== false) this.host.closed(this);
      },
      timer: (ms, fire) => {
        const { scheduler } = this.host;
        const event = scheduler.schedule(owner, scheduler.time + ms, 'timer', fire);
        return () => (event.cancelled = true);
      },
    });
  }
}

/** One direction of a connection. It keeps the order of its packets; it may lose them, but only all at once. */
class Channel {
  #lastArrival = 0;
  /** Packets that a cut holds back. */
  #held: { readonly receiver: Actor; readonly arrive: () => void }[] = [];
  #releasing = false;
  /** Each loss of packets starts a new epoch. A packet that was sent in an earlier epoch does not arrive. */
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
      if (this.#held.length > 0 || this.#isCut) this.#held.push({ receiver, arrive });
      else arrive();
    });
  }

  /** Delivers the packets that a cut held back in their order, before packets that are sent later. */
  release(delay = this.link.delay()): void {
    const [first] = this.#held;
    if (!first || this.#releasing || this.#isCut) return;
    this.#releasing = true;
    this.scheduler.schedule(first.receiver, this.scheduler.time + delay, 'message', () => {
      this.#releasing = false;
      if (this.#held[0] === first && !this.#isCut) {
        this.#held.shift();
        first.arrive();
      }
      this.release(STRICTLY_LATER);
    });
  }

  get #isCut(): boolean {
    return this.link.isCut(this.way);
  }

  /** Loses the packets that are on their way. */
  drop(): void {
    this.#epoch++;
    this.#held = [];
  }

  /** Returns the time at which a packet that leaves now arrives. No two packets arrive at the same time. */
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
