// JavaScript with types in comments: programs outside of this repository import this file without a build.
import { once } from 'node:events';
import net from 'node:net';

/** @typedef {'requests' | 'answers'} Direction */

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
  /**
   * Of the present connections.
   *
   * @type {Set<Pipe>}
   */
  #pipes = new Set();
  /**
   * Directions that are held back on new connections too.
   *
   * @type {Set<Direction>}
   */
  #held = new Set();
  /** @type {net.Server} */
  #listener = net.createServer();
  #port = 0;

  /**
   * Use {@link Link.to}.
   *
   * @param {number} target
   * @param {string} host
   */
  constructor(target, host) {
    this.target = target;
    this.host = host;
  }

  /** @param {number} target the server's port on 127.0.0.1 */
  static async to(target, { host = '127.0.0.1', latency = 0 } = {}) {
    const link = new Link(target, host);
    link.latency = latency;
    await link.#listen(0);
    link.#port = /** @type {net.AddressInfo} */ (link.#listener.address()).port;
    return link;
  }

  get port() {
    return this.#port;
  }

  get connectString() {
    return `${this.host}:${this.#port}`;
  }

  /** Breaks every connection; new ones are accepted. */
  cut() {
    for (const pipe of this.#pipes) pipe.break();
  }

  /** Breaks every connection and refuses new ones. */
  async down() {
    if (!this.#listener.listening) return;
    const closed = once(this.#listener, 'close');
    this.#listener.close();
    this.cut();
    await closed;
  }

  async up() {
    if (!this.#listener.listening) await this.#listen(this.#port);
  }

  /** Holds back both directions. Connections stay open, and new ones are accepted. */
  holdAll() {
    this.#hold(['requests', 'answers'], true);
  }

  /** Holds back requests on the present connections; with `lasting`, on later ones too. Answers pass. */
  holdRequests(lasting = false) {
    this.#hold(['requests'], lasting);
  }

  /** Holds back answers on the present connections; with `lasting`, on later ones too. Requests pass. */
  holdReplies(lasting = false) {
    this.#hold(['answers'], lasting);
  }

  /** Delivers what was held back, as after a partition that TCP survived. */
  resume() {
    this.#held.clear();
    for (const pipe of this.#pipes) pipe.flow();
  }

  /** Passes the next request of each connection on, and breaks the connection instead of the reply. */
  dropReply() {
    for (const pipe of this.#pipes) pipe.dropReply();
  }

  close() {
    this.#listener.close();
    this.cut();
  }

  /** @param {number} port */
  async #listen(port) {
    this.#listener = net.createServer((client) => this.#join(client)).listen(port, this.host);
    await once(this.#listener, 'listening');
  }

  /** @param {net.Socket} client */
  #join(client) {
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

  /**
   * @param {readonly Direction[]} directions
   * @param {boolean} lasting
   */
  #hold(directions, lasting) {
    if (lasting) for (const direction of directions) this.#held.add(direction);
    for (const pipe of this.#pipes) if (directions.includes(pipe.direction)) pipe.hold();
  }
}

/** One direction of one connection. */
class Pipe {
  /**
   * The pipe of the answers, if this is the one of the requests.
   *
   * @type {Pipe | undefined}
   */
  back;
  /** @type {{ work: () => void; due: number }[]} */
  #delayed = [];
  #due = 0;
  #dropsReply = false;
  #breaksAtData = false;

  /**
   * @param {net.Socket} from
   * @param {net.Socket} to
   * @param {Direction} direction
   * @param {Link} link
   */
  constructor(from, to, direction, link) {
    this.from = from;
    this.to = to;
    this.direction = direction;
    this.link = link;
    from.on('data', (chunk) => this.#receive(chunk));
    from.on('close', () => this.#afterLatency(() => to.destroy()));
    from.on('error', () => {}).setNoDelay();
  }

  hold() {
    this.from.pause();
  }

  flow() {
    this.from.resume();
  }

  break() {
    this.from.destroy();
    this.to.destroy();
  }

  dropReply() {
    if (this.back) this.#dropsReply = true;
  }

  /** @param {Buffer} chunk */
  #receive(chunk) {
    if (this.#breaksAtData) return this.break();
    if (this.#dropsReply) /** @type {Pipe} */ (this.back).#breaksAtData = true;
    this.#afterLatency(() => this.to.write(chunk));
  }

  /** @param {() => void} work */
  #afterLatency(work) {
    const now = performance.now();
    // Not before earlier bytes, which may have a higher latency.
    this.#due = Math.max(now + this.link.latency, this.#due);
    if (this.#delayed.length === 0 && this.#due <= now) return work();
    this.#delayed.push({ work, due: this.#due });
    if (this.#delayed.length === 1) this.#wait();
  }

  #wait() {
    setTimeout(() => {
      do /** @type {{ work: () => void }} */ (this.#delayed.shift()).work();
      while (this.#delayed[0] && this.#delayed[0].due <= performance.now());
      if (this.#delayed.length > 0) this.#wait();
    }, this.#delayed[0].due - performance.now());
  }
}
