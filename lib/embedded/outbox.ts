import { Writer } from '../protocol/index.js';
import type { ClientStream } from './client-stream.js';

/** Milliseconds until a client must have read what ends its connection. */
const PATIENCE = 10_000;

const MAX_TIMER = 0x7fff_ffff;

interface Held {
  readonly since: number;
  /** `undefined` is the connection's end. */
  readonly bytes: Buffer | undefined;
}

/** What leaves over one socket, in its order; a fault of the line holds it back. */
export class Outbox {
  readonly #output = new Writer();
  #held: Held[] = [];
  #heldBytes = 0;
  #flushing = false;
  #ended = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly socket: ClientStream,
    /** Milliseconds that everything takes on its way, as of now; Infinity while nothing passes. */
    private readonly delay: () => number,
    /** Calls release() when something is due, and goes on. */
    private readonly onDue: () => void,
  ) {
    socket.once('close', () => this.#discard());
  }

  get unsent(): number {
    return this.#output.length + this.#heldBytes + this.socket.writableLength;
  }

  /** Everything written in one turn of the event loop leaves in one system call. */
  frame(body: (to: Writer) => void): void {
    this.#output.frame(body);
    if (this.#flushing) return;
    this.#flushing = true;
    process.nextTick(() => this.flush());
  }

  flush(): void {
    this.#flushing = false;
    if (this.#output.length === 0 || this.socket.destroyed) return;
    const bytes = this.#output.take();
    if (this.#held.length === 0 && this.delay() === 0) this.socket.write(bytes);
    else this.#hold(bytes);
  }

  /** The socket ends once everything has left. */
  end(): void {
    this.flush();
    if (this.#ended) return;
    this.#ended = true;
    if (this.#held.length === 0 && this.delay() === 0) this.#finish();
    else this.#hold(undefined);
  }

  /** Sends what the line lets through by now: to be called when its faults change. */
  release(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const delay = this.delay();
    while (this.#held.length > 0) {
      const [{ since, bytes }] = this.#held;
      const left = since + delay - performance.now();
      if (left > 0) {
        // Timers may run a millisecond early.
        if (left < Infinity) this.#timer = setTimeout(this.onDue, Math.min(left + 1, MAX_TIMER));
        return;
      }
      this.#held.shift();
      this.#heldBytes -= bytes?.length ?? 0;
      if (bytes) this.socket.write(bytes);
      else this.#finish();
    }
  }

  #hold(bytes: Buffer | undefined): void {
    this.#held.push({ since: performance.now(), bytes });
    this.#heldBytes += bytes?.length ?? 0;
    if (this.#timer === undefined) this.release();
  }

  #finish(): void {
    this.socket.setTimeout(PATIENCE, () => this.socket.destroy());
    this.socket.destroySoon();
  }

  #discard(): void {
    clearTimeout(this.#timer);
    this.#held = [];
    this.#heldBytes = 0;
  }
}
