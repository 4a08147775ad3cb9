import { once } from 'node:events';
import net from 'node:net';

/**
 * The network between one client and one server. It can be cut, refuse, fall silent in one direction
 * or both, take its time, and lose an answer after the request went through.
 */
export class Link {
  /** Milliseconds each way; timers add about one. May change at any time: bytes keep their order. */
  latency;
  /** Connections made so far. */
  accepted = 0;
  /** Of the present connections. */
  #pipes = new Set();
  /** Directions in which nothing passes, on new connections either. */
  #held = new Set();
  #target;
  #host;
  #port;
  #listener;

  static async to(target, { host = '127.0.0.1', latency = 0 } = {}) {
    const link = new Link();
    link.#target = target;
    link.#host = host;
    link.latency = latency;
    await link.#listen(0);
    link.#port = link.#listener.address().port;
    return link;
  }

  get port() {
    return this.#port;
  }

  get connectString() {
    return `${this.#host}:${this.#port}`;
  }

  /** Breaks every connection; new ones are welcome. */
  cut() {
    for (const pipe of this.#pipes) pipe.break();
  }

  /** Breaks every connection, and nothing listens any more. */
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

  /** Nothing passes any more in either direction, though connections stand and new ones are accepted. */
  silence() {
    this.#hold(['requests', 'answers'], true);
  }

  /** What clients say on the present connections is lost from now on, on `lasting` on later ones too; what servers say arrives. */
  mute(lasting = false) {
    this.#hold(['requests'], lasting);
  }

  /** The same for what servers say; what clients say arrives. */
  deafen(lasting = false) {
    this.#hold(['answers'], lasting);
  }

  /** What was held back passes, as after a partition that TCP outlived. */
  speak() {
    this.#held.clear();
    for (const pipe of this.#pipes) pipe.flow();
  }

  /** Lets the next request of each connection through and breaks the connection instead of the answer. */
  dropReply() {
    for (const pipe of this.#pipes) pipe.dropReply();
  }

  close() {
    this.#listener.close();
    this.cut();
  }

  async #listen(port) {
    this.#listener = net.createServer((client) => this.#join(client)).listen(port, this.#host);
    await once(this.#listener, 'listening');
  }

  #join(client) {
    this.accepted++;
    const server = net.connect(this.#target, '127.0.0.1');
    const requests = new Pipe(client, server, 'requests', this);
    const answers = new Pipe(server, client, 'answers', this);
    requests.back = answers;
    for (const pipe of [requests, answers]) {
      this.#pipes.add(pipe);
      pipe.from.on('close', () => this.#pipes.delete(pipe));
      if (this.#held.has(pipe.direction)) pipe.hold();
    }
  }

  #hold(directions, lasting) {
    if (lasting) for (const direction of directions) this.#held.add(direction);
    for (const pipe of this.#pipes) if (directions.includes(pipe.direction)) pipe.hold();
  }
}

/** One direction of one connection. */
class Pipe {
  /** The other direction, of a connection's requests. */
  back;
  #link;
  #waiting = [];
  #due = 0;
  #dropping = false;
  #losing = false;

  constructor(from, to, direction, link) {
    this.from = from;
    this.to = to;
    this.direction = direction;
    this.#link = link;
    from.on('data', (chunk) => this.#take(chunk));
    from.on('close', () => this.#later(() => to.destroy()));
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
    if (this.back) this.#dropping = true;
  }

  #take(chunk) {
    if (this.#losing) return this.break();
    if (this.#dropping) this.back.#losing = true;
    this.#later(() => this.to.write(chunk));
  }

  #later(work) {
    const now = performance.now();
    // Never before what was taken earlier, when the network was slower.
    this.#due = Math.max(now + this.#link.latency, this.#due);
    if (this.#waiting.length === 0 && this.#due <= now) return work();
    this.#waiting.push({ work, due: this.#due });
    if (this.#waiting.length === 1) this.#wait();
  }

  #wait() {
    setTimeout(() => {
      do this.#waiting.shift().work();
      while (this.#waiting[0]?.due <= performance.now());
      if (this.#waiting.length > 0) this.#wait();
    }, this.#waiting[0].due - performance.now());
  }
}
