import { EventEmitter } from 'node:events';
import type { ClientStream } from './outbox.js';

/** A packet from one end of a connection to the other end. */
export type Packet =
  | {
      readonly bytes: Buffer;
      /** Whether it only keeps the session of an idle client alive, as far as the simulation knows. */
      keepAlive?: boolean;
    }
  | 'end'
  | 'reset';

/** The callbacks of a stream. */
interface StreamHost {
  /** Sends a packet to the other end. */
  send(packet: Packet): void;
  /** Called once, when this end closes. */
  closed(): void;
  /**
   * Called when the owner of a closed end asks whether it is closed. May throw, as the end of a process of the simulation
   * does that has crashed.
   */
  checkOwner(): void;
  /** Starts a timer in the process of this end. Returns the function that stops the timer. */
  timer(ms: number, fire: () => void): () => void;
}

/** One end of a connection without sockets. It has those methods of `net.Socket` that the client and the server use. */
export class InMemoryStream extends EventEmitter implements ClientStream {
  readonly remoteAddress = '127.0.0.1';
  readonly remotePort = 0;
  /** Bytes are sent at once, so a writer never has to wait. */
  readonly writableNeedDrain = false;
  readonly writableLength = 0;
  #closed = false;
  #paused = false;
  #received: Packet[] = [];
  #stopTimer: () => void = () => {};

  constructor(private readonly host: StreamHost) {
    super();
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Whether this end is closed, for its owner. */
  get destroyed(): boolean {
    if (this.#closed) this.host.checkOwner();
    return this.#closed;
  }

  write(bytes: Buffer): boolean {
    if (!this.#closed) this.host.send({ bytes });
    return true;
  }

  end(bytes?: Buffer | string, done?: () => void): this {
    if (bytes !== undefined) this.write(Buffer.from(bytes));
    if (!this.#closed) this.host.send('end');
    if (done) process.nextTick(done);
    return this;
  }

  destroy(error?: Error): this {
    if (this.#closed) return this;
    this.host.send('end');
    return this.#close(error);
  }

  destroySoon(): void {
    this.destroy();
  }

  resetAndDestroy(): this {
    if (this.#closed) return this;
    this.host.send('reset');
    return this.#close();
  }

  /** Closes this end with an error. The other end is not notified. */
  fail(error: Error): void {
    if (!this.#closed) this.#close(error);
  }

  /** Closes this end and emits no events. The other end is not notified. */
  closeSilently(): void {
    this.#closed = true;
    this.#received = [];
    this.#stopTimer();
    this.host.closed();
  }

  pause(): this {
    this.#paused = true;
    return this;
  }

  resume(): this {
    if (!this.#paused) return this;
    this.#paused = false;
    for (const packet of this.#received.splice(0)) this.receive(packet);
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setTimeout(ms: number, onIdle?: () => void): this {
    this.#stopTimer();
    this.#stopTimer = ms > 0 && onIdle ? this.host.timer(ms, onIdle) : () => {};
    return this;
  }

  /** Handles a packet of the other end. */
  receive(packet: Packet): void {
    if (this.#closed) return;
    if (this.#paused) {
      this.#received.push(packet);
    } else if (packet === 'end') {
      this.emit('end');
      this.destroy();
    } else if (packet === 'reset') {
      this.#close(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
    } else {
      this.emit('data', packet.bytes);
    }
  }

  #close(error?: Error): this {
    this.closeSilently();
    process.nextTick(() => {
      if (error) this.emit('error', error);
      this.emit('close');
    });
    return this;
  }
}
