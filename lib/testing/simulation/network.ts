import { InMemoryStream, type Packet } from '../../embedded/stream.js';
import { addReplies, addRequest, ConnectionDigest, splitFrames } from './digest.js';
import type { SimulatedServer } from './ensemble.js';
import type { SimulatedProcess } from './process.js';
import type { Actor, Event, Message, Scheduler } from './scheduler.js';

/** Milliseconds between two packets in one direction, so that no two packets arrive at the same time. */
const MIN_PACKET_GAP = 1e-6;

/** Milliseconds after which a packet is sent again if it was not acknowledged. */
const RETRANSMISSION_DELAY = 1000;

/** All connections between processes and servers. */
export class Network {
  readonly #connections = new Set<Connection>();
  readonly #deliveryListeners = new Set<(message: Message) => void>();

  constructor(
    readonly scheduler: Scheduler,
    /** The owner of events that the kernels of the machines handle, also while a process is paused. */
    readonly kernel: Actor,
    private readonly servers: readonly SimulatedServer[],
  ) {}

  /** The addresses of all servers, separated by commas. */
  get connectString(): string {
    return this.servers.map(({ address }) => address).join(',');
  }

  /** Applies the faults of a process's link to the connections of that process. */
  attachLink(process: SimulatedProcess, note: (event: string) => void): void {
    process.link.attach({
      note,
      onCutEnd: () => this.#forEachConnection(process, (connection) => connection.release()),
      onReset: () => this.#forEachConnection(process, (connection) => connection.reset()),
      onNextOfOthers: (direction, act) => {
        const listener = (message: Message) => {
          if (message.process === process || message.direction !== direction) return;
          this.#deliveryListeners.delete(listener);
          act();
        };
        this.#deliveryListeners.add(listener);
      },
    });
  }

  /** Called after a packet has arrived. */
  delivered(message: Message): void {
    for (const listener of this.#deliveryListeners) listener(message);
  }

  /** Opens a connection to a server. If the server does not accept it, the connection breaks later. */
  connect(process: SimulatedProcess, address: string): InMemoryStream {
    const server = this.servers.find((each) => each.address === address);
    if (!server) throw new Error(`no simulated server listens at ${address}`);
    process.checkNotCrashed();
    const connection = new Connection(this, process, server);
    this.#connections.add(connection);
    return connection.client;
  }

  /**
   * Ends the connections of a process that has crashed.
   *
   * @param silently whether the other ends are not notified
   */
  processCrashed(process: SimulatedProcess, silently: boolean): void {
    for (const connection of [...this.#connections]) connection.processCrashed(process, silently);
  }

  remove(connection: Connection): void {
    this.#connections.delete(connection);
  }

  #forEachConnection(process: SimulatedProcess, act: (connection: Connection) => void): void {
    for (const connection of [...this.#connections]) {
      if (connection.process === process) act(connection);
    }
  }
}

/**
 * One TCP connection. The kernels of the machines complete the handshake, also while the process of the server is
 * paused.
 */
class Connection {
  readonly client: InMemoryStream;
  #server: InMemoryStream | undefined;
  /** The process of the server that accepts the connection. A restart of the server starts another process. */
  #serverProcess: SimulatedProcess | undefined;
  readonly #toServer: Channel;
  readonly #toClient: Channel;
  readonly #behaviour: ConnectionDigest;
  /** Packets that the client wrote before the end of the handshake; undefined afterwards. */
  #earlyPackets: Packet[] | undefined = [];

  constructor(
    private readonly host: Network,
    readonly process: SimulatedProcess,
    private readonly server: SimulatedServer,
  ) {
    this.#toServer = new Channel(host, process, 'requests');
    this.#toClient = new Channel(host, process, 'replies');
    const { digest } = host.scheduler;
    this.#behaviour = new ConnectionDigest(host.scheduler.behaviour, process.id);
    const send = (packet: Packet) => {
      if (this.#earlyPackets) this.#earlyPackets.push(packet);
      else this.#sendToServer(packet);
    };
    this.client = this.#createStream(process, (packet) => {
      if (typeof packet !== 'object') return send(packet);
      // Each request arrives by itself, so that one of another client may come between two that were sent together.
      for (const bytes of splitFrames(packet.bytes)) {
        addRequest(digest, bytes);
        send({ bytes, keepAlive: !this.#behaviour.addRequest(bytes) });
      }
    });
    this.#toServer.send(host.kernel, () => this.#onSyn());
  }

  /** Delivers the packets that a cut held back. */
  release(): void {
    this.#toServer.release();
    this.#toClient.release();
  }

  /** Breaks the connection at both ends. Packets in transit are lost. */
  reset(): void {
    this.#toServer.drop();
    this.#toClient.drop();
    this.#sendToServer('reset');
    this.#sendToClient('reset');
  }

  processCrashed(crashed: SimulatedProcess, silently: boolean): void {
    if (crashed === this.process) {
      this.client.closeSilently();
      if (!silently) this.#sendToServer('reset');
    } else if (crashed === this.#serverProcess) {
      this.#server?.closeSilently();
      if (!silently) this.#sendToClient('reset');
    }
  }

  /** Called when the first packet of the handshake arrives at the machine of the server. */
  #onSyn(): void {
    if (this.client.closed) return;
    const { address, state } = this.server;
    if (state === 'unreachable') {
      this.#retransmit(() => this.#onSyn());
    } else if (state === 'stopped' || this.process.link.refuses) {
      this.#toClient.send(this.process, () => this.client.fail(connectionRefused(address)));
    } else {
      this.#serverProcess = this.server.process;
      this.#toClient.send(this.host.kernel, () => this.#onSynAck());
    }
  }

  /**
   * Called when the second packet of the handshake arrives at the client. The third packet makes the server accept the
   * connection.
   */
  #onSynAck(): void {
    if (this.client.closed) return;
    const { scheduler } = this.host;
    const process = this.#serverProcess!;
    const server = (this.#server = this.#createStream(process, (packet) => {
      // The ensemble may end a session while the server of the connection is paused.
      const { digest, time } = scheduler;
      if (typeof packet === 'object') {
        addReplies(digest, packet.bytes);
        packet.keepAlive = !this.#behaviour.addReplies(packet.bytes);
      }
      const send = () => this.#sendToClient(packet);
      if (process.paused) scheduler.schedule(process, time, 'message', send);
      else send();
    }));
    // The connection may break before the server accepts it and adds a listener.
    server.on('error', () => {});
    this.#toServer.send(process, () => this.server.accept(server, this.process));
    scheduler.schedule(this.process, scheduler.time, 'message', () => {
      const packets = this.#earlyPackets!;
      this.#earlyPackets = undefined;
      for (const packet of packets) this.#sendToServer(packet);
    });
  }

  #sendToServer(packet: Packet): void {
    const process = this.#serverProcess;
    if (process?.crashed) this.#toServer.send(this.host.kernel, () => this.#onUnknownConnection());
    else if (process) {
      this.#toServer.send(process, (arrived) => this.#server?.receive(arrived!), packet);
    }
  }

  #sendToClient(packet: Packet): void {
    this.#toClient.send(this.process, (arrived) => this.client.receive(arrived!), packet);
  }

  /**
   * Called when a packet of the client arrives at the machine of the server after the process of the server crashed.
   */
  #onUnknownConnection(): void {
    if (this.client.closed) return;
    if (this.server.state === 'unreachable') this.#retransmit(() => this.#onUnknownConnection());
    else this.#sendToClient('reset');
  }

  #retransmit(arrive: () => void): void {
    const { scheduler, kernel } = this.host;
    scheduler.schedule(kernel, scheduler.time + RETRANSMISSION_DELAY, 'message', () =>
      this.#toServer.send(kernel, arrive),
    );
  }

  #createStream(owner: SimulatedProcess, send: (packet: Packet) => void): InMemoryStream {
    return new InMemoryStream({
      send,
      closed: () => {
        if (this.client.closed && this.#server?.closed !== false) this.host.remove(this);
      },
      checkOwner: () => owner.checkNotCrashed(),
      timer: (ms, fire) => {
        const { scheduler } = this.host;
        const event = scheduler.schedule(owner, scheduler.time + ms, 'timer', fire);
        return () => (event.cancelled = true);
      },
    });
  }
}

/** Handles a packet where it arrives; undefined for one of the TCP handshake. */
type Arrive = (packet: Packet | undefined) => void;

/** One direction of a connection. Packets arrive in order. A reset loses all packets in transit. */
class Channel {
  #lastArrival = 0;
  /** The replies in transit, in their order. */
  #replies: { readonly event: Event; readonly arrival: number; readonly message: Message }[] = [];
  /** Packets that a cut holds back. */
  #heldPackets: {
    readonly receiver: Actor;
    readonly arrive: Arrive;
    readonly message: Message;
  }[] = [];
  #releasing = false;
  /** Each reset starts a new epoch. A packet that was sent in an earlier epoch does not arrive. */
  #epoch = 0;

  constructor(
    private readonly host: Network,
    private readonly process: SimulatedProcess,
    private readonly direction: 'requests' | 'replies',
  ) {}

  send(receiver: Actor, arrive: Arrive, packet?: Packet): void {
    const epoch = this.#epoch;
    const { process, direction } = this;
    const { scheduler } = this.host;
    const message = { process, direction, packet };
    const arrival = this.#arrivalTime();
    const receive = () => {
      if (epoch !== this.#epoch) return;
      if (isReply) this.#replies.shift();
      if (this.#heldPackets.length > 0 || this.#isCut) {
        this.#heldPackets.push({ receiver, arrive, message });
      } else if (isReply) {
        this.#readAll(arrive, message);
      } else {
        arrive(packet);
        this.host.delivered(message);
      }
    };
    const event = scheduler.schedule(receiver, arrival, 'message', receive, { message });
    const isReply = direction === 'replies' && typeof packet === 'object';
    if (isReply) this.#replies.push({ event, arrival, message });
  }

  /**
   * Lets a reply arrive, together with those that have reached the machine meanwhile: a process that was paused or busy
   * reads all of them at once.
   */
  #readAll(arrive: Arrive, first: Message): void {
    const messages = [first];
    while (this.#replies[0] && this.#replies[0].arrival <= this.host.scheduler.now) {
      const { event, message } = this.#replies.shift()!;
      event.cancelled = true;
      messages.push(message);
    }
    const chunks = messages.map(({ packet }) => (packet as Exclude<Packet, string>).bytes);
    arrive({ bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) });
    for (const message of messages) this.host.delivered(message);
  }

  /** Delivers the packets that a cut held back, in their order and before any packet that is sent later. */
  release(delay = this.process.link.randomLatency()): void {
    const [first] = this.#heldPackets;
    if (!first || this.#releasing || this.#isCut) return;
    this.#releasing = true;
    const { scheduler } = this.host;
    const { receiver, arrive, message } = first;
    const receive = () => {
      this.#releasing = false;
      if (this.#heldPackets[0] === first && !this.#isCut) {
        this.#heldPackets.shift();
        arrive(message.packet);
        this.host.delivered(message);
      }
      this.release(MIN_PACKET_GAP);
    };
    scheduler.schedule(receiver, scheduler.time + delay, 'message', receive, { message });
  }

  get #isCut(): boolean {
    return this.process.link.isCut(this.direction);
  }

  /** Loses the packets in transit. */
  drop(): void {
    this.#epoch++;
    this.#replies = [];
    this.#heldPackets = [];
  }

  /** Returns the time at which a packet that is sent now arrives. */
  #arrivalTime(): number {
    const { time } = this.host.scheduler;
    this.#lastArrival = Math.max(
      this.#lastArrival + MIN_PACKET_GAP,
      time + this.process.link.randomLatency(),
    );
    return this.#lastArrival;
  }
}

function connectionRefused(address: string): Error {
  const error = new Error(`connect ECONNREFUSED ${address}`);
  return Object.assign(error, { code: 'ECONNREFUSED', syscall: 'connect' });
}
