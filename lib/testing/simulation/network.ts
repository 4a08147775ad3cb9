import type { Link } from './link.js';
import type { SimulatedProcess } from './process.js';
import type { Actor, Scheduler } from './scheduler.js';
import type { SimulatedServer } from './server.js';
import { type Packet, SimulatedStream } from './stream.js';

/** Milliseconds between two packets of one direction, at least. */
const STRICTLY_LATER = 1e-6;

/** Milliseconds after which a packet that a machine did not confirm is sent again. */
const RETRANSMISSION = 1000;

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

/** One connection. The servers' kernels answer while a process stands still; its code does not. */
class Connection {
  readonly client: SimulatedStream;
  #server: SimulatedStream | undefined;
  /** The server's process that accepts the connection: after a crash the server has another one. */
  #serverProcess: SimulatedProcess | undefined;
  readonly #toServer: Channel;
  readonly #toClient: Channel;
  /** What the client writes before it learns that the connection is established. */
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

  /** Both ends learn that the connection broke; what was on its way is lost. */
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

  /** The first packet of the handshake has arrived at the server. */
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

  /** The second packet has arrived at the client; the third one lets the server accept the connection. */
  #established(): void {
    if (this.client.destroyed) return;
    const { scheduler } = this.host;
    const process = this.#serverProcess!;
    const server = (this.#server = this.#end(process, (packet) => {
      // The ensemble may end a session while the server that has its connection stands still.
      const { time } = scheduler;
      const send = () => this.#sendToClient(packet);
      if (process.paused) scheduler.schedule(process, time, 'message', send);
      else send();
    }));
    // It may break before the server accepts it and listens.
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

  /** A packet of the client has reached the server's machine, where the process it is for is gone. */
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
      if (this.#held.length > 0 || this.#isCut) this.#held.push({ receiver, arrive });
      else arrive();
    });
  }

  /** Lets what a cut held back arrive, one packet right after the other, and before all that is sent later. */
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
