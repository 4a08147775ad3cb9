import { once } from 'node:events';
import net from 'node:net';

/** The network between one instance and its server. */
export class Link {
  #latency;
  #pairs = new Set();
  #state = 'open';
  #listener;

  /** @param latency milliseconds each way; timers add about one */
  static async to(port, latency) {
    const link = new Link();
    link.#latency = latency;
    link.#listener = net.createServer((client) => link.#join(client, port)).listen(0, '127.0.0.1');
    await once(link.#listener, 'listening');
    return link;
  }

  get connectString() {
    return `127.0.0.1:${this.#listener.address().port}`;
  }

  /** Connections break, and new ones at once. */
  cut() {
    this.#state = 'cut';
    this.#breakAll();
  }

  /** Connections stand, and nothing passes: neither side is told. */
  silence() {
    this.#state = 'silent';
    for (const pair of this.#pairs) for (const socket of pair) socket.pause();
  }

  restore() {
    this.#state = 'open';
    // What was held back in silence belongs to connections that both sides have given up by now.
    this.#breakAll();
  }

  close() {
    this.#listener.close();
    this.cut();
  }

  #join(client, port) {
    if (this.#state === 'cut') {
      client.destroy();
      return;
    }
    const server = net.connect(port, '127.0.0.1');
    const pair = [client, server];
    this.#pairs.add(pair);
    for (const [from, to] of [pair, pair.toReversed()]) {
      from.on('data', (chunk) => this.#later(() => to.write(chunk)));
      from.on('close', () => this.#later(() => to.destroy()));
      from.on('close', () => this.#pairs.delete(pair));
      from.on('error', () => {}).setNoDelay();
      if (this.#state === 'silent') from.pause();
    }
  }

  #later(work) {
    // Timers of one duration keep their order.
    if (this.#latency > 0) setTimeout(work, this.#latency);
    else work();
  }

  #breakAll() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }
}
