import { once } from 'node:events';
import net from 'node:net';

type Direction = 'requests' | 'answers';

/**
 * A TCP proxy that stands for the network between clients and one server. It can break and refuse
 * connections, hold back bytes in one direction or both, add latency, and drop a reply after the server
 * has applied the request.
 */
export class Link {
  /** Milliseconds each way; timers add about one. May change at any time; bytes keep their order. */
  latency = 0;
  /** The number of connections made so far. */
  accepted = 0;
  /** Of the present connections. */
  readonly #pipes = new Set<Pipe>();
  /** Directions that are held back on new connections too. */
  readonly #held = new Set<Direction>();
  #listener!: net.Server;
  #port = 0;

  private constructor(
    private readonly target: number,
    private readonly host: string,
  ) {}

  /** @param target the server's port on 127.0.0.1 */
  static async to(target: number, { host = '127.0.0.1', latency = 0 } = {}): Promise<Link> {
    const link = new Link(target, host);
    link.latency = latency;
    await link.#listen(0);
    link.#port = (link.#listener.address() as net.AddressInfo).port;
    return link;
  }

  get port(): number {
    return this.#port;
  }

  get connectString(): string {
    return `${this.host}:${this.#port}`;
  }

  /** Breaks every connection; new ones are accepted. */
  cut(): void {
    for (const pipe of this.#pipes) pipe.break();
  }

  /** Breaks every connection and refuses new ones. */
  async down(): Promise<void> {
    if (!this.#listener.listening) return;
    const closed = once(this.#listener, 'close');
    this.#listener.close();
    this.cut();
    await closed;
  }

  async up(): Promise<void> {
    if (!this.#listener.listening) await this.#listen(this.#port);
  }

  /** Holds back both directions. Connections stay open, and new ones are accepted. */
  silence(): void {
    this.#hold(['requests', 'answers'], true);
  }

  /** Holds back requests on the present connections; with `lasting`, on later ones too. Answers pass. */
  mute(lasting = false): void {
    this.#hold(['requests'], lasting);
  }

  /** Holds back answers on the present connections; with `lasting`, on later ones too. Requests pass. */
  deafen(lasting = false): void {
    this.#hold(['answers'], lasting);
  }

  /** Delivers what was held back, as after a partition that TCP survived. */
  speak(): void {
    this.#held.clear();
    for (const pipe of this.#pipes) pipe.flow();
  }

  /** Passes the next request of each connection on, and breaks the connection instead of the reply. */
  dropReply(): void {
    for (const pipe of this.#pipes) pipe.dropReply();
  }

  close(): void {
    this.#listener.close();
    this.cut();
  }

  async #listen(port: number): Promise<void> {
    this.#listener = net.createServer((client) => this.#join(client)).listen(port, this.host);
    await once(this.#listener, 'listening');
  }

  #join(client: net.Socket): void {
    this.accepted++;
    const server = net.connect(this.target, '127.0.0.1');
    const requests = new Pipe(client, server, 'requests', this);
    const answers = new Pipe(server, client, 'answers', this);
    requests.back = answers;
    for (const pipe of [requests, answers]) {
      this.#pipes.add(pipe);
      pipe.from.on('close', () => this.#pipes.delete(pipe));
      if (this.#held.has(pipe.direction)) pipe.hold();
    }
  }

  #hold(directions: readonly Direction[], lasting: boolean): void {
    if (lasting) for (const direction of directions) this.#held.add(direction);
    for (const pipe of this.#pipes) if (directions.includes(pipe.direction)) pipe.hold();
  }
}

/** One direction of one connection. */
class Pipe {
  /** The pipe of the answers, if this is the one of the requests. */
  back: Pipe | undefined;
  readonly #delayed: { work: () => void; due: number }[] = [];
  #due = 0;
  #dropsReply = false;
  #breaksAtData = false;

  constructor(
    readonly from: net.Socket,
    private readonly to: net.Socket,
    readonly direction: Direction,
    private readonly link: Link,
  ) {
    from.on('data', (chunk) => this.#receive(chunk));
    from.on('close', () => this.#afterLatency(() => to.destroy()));
    from.on('error', () => {}).setNoDelay();
  }

  hold(): void {
    this.from.pause();
  }

  flow(): void {
    this.from.resume();
  }

  break(): void {
    this.from.destroy();
    this.to.destroy();
  }

  dropReply(): void {
    if (this.back) this.#dropsReply = true;
  }

  #receive(chunk: Buffer): void {
    if (this.#breaksAtData) return this.break();
    if (this.#dropsReply) this.back!.#breaksAtData = true;
    this.#afterLatency(() => this.to.write(chunk));
  }

  #afterLatency(work: () => void): void {
    const now = performance.now();
    // Not before earlier bytes, which may have a higher latency.
    this.#due = Math.max(now + this.link.latency, this.#due);
    if (this.#delayed.length === 0 && this.#due <= now) return work();
    this.#delayed.push({ work, due: this.#due });
    if (this.#delayed.length === 1) this.#wait();
  }

  #wait(): void {
    setTimeout(() => {
      do this.#delayed.shift()!.work();
      while (this.#delayed[0] && this.#delayed[0].due <= performance.now());
      if (this.#delayed.length > 0) this.#wait();
    }, this.#delayed[0]!.due - performance.now());
  }
}
