import { Writer } from '../protocol/index.js';

/** A client's connection as the server uses it: a socket, or a stream within this process. */
export interface ClientStream {
  readonly remoteAddress?: string;
  readonly remotePort?: number;
  readonly destroyed: boolean;
  readonly writableLength: number;
  write(bytes: Buffer): unknown;
  end(bytes: string, done: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  setNoDelay(noDelay: boolean): unknown;
  setTimeout(milliseconds: number, onIdle?: () => void): unknown;
  destroy(): unknown;
  /** Ends the connection after all written bytes have been sent. */
  destroySoon(): void;
  resetAndDestroy(): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'drain' | 'close', listener: () => void): unknown;
  once(event: 'close', listener: () => void): unknown;
}

/** Milliseconds within which a client must read the end of its connection. */
const END_LIMIT = 10_000;

const MAX_TIMER = 0x7fff_ffff;

interface Held {
  readonly since: number;
  /** `undefined` is the connection's end. */
  readonly bytes: Buffer | undefined;
}

/** The output of one socket, in order. Faults can delay it or hold it back. */
export class Outbox {
  readonly #output = new Writer();
  #held: Held[] = [];
  #heldBytes = 0;
  #flushing = false;
  #ended = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly socket: ClientStream,
    /** Returns the current delay in milliseconds; Infinity while output is held back. */
    private readonly delay: () => number,
    /** Called when held output is due; calls release(). */
    private readonly onDue: () => void,
  ) {
    socket.once('close', () => this.#discard());
  }

  get unsent(): number {
    return this.#output.length + this.#heldBytes + this.socket.writableLength;
  }

  /** Writes a frame. All frames of one turn of the event loop are sent in one system call. */
  frame(body: (to: Writer) => void): void {
    this.#output.frame(body);
    if (this.#flushing) return;
    this.#flushing = true;
    void Promise.resolve().then(() => this.flush());
  }

  flush(): void {
    this.#flushing = false;
    if (this.#output.length === 0 || this.socket.destroyed) return;
    const bytes = this.#output.take();
    if (this.#held.length === 0 && this.delay() === 0) this.socket.write(bytes);
    else this.#hold(bytes);
  }

  /** Ends the socket after all output has been sent. */
  end(): void {
    this.flush();
    if (this.#ended) return;
    this.#ended = true;
    if (this.#held.length === 0 && this.delay() === 0) this.#finish();
    else this.#hold(undefined);
  }

  /** Sends the output that is due. Must be called when faults change. */
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
    this.socket.setTimeout(END_LIMIT, () => this.socket.destroy());
    this.socket.destroySoon();
  }

  #discard(): void {
    clearTimeout(this.#timer);
    this.#held = [];
    this.#heldBytes = 0;
  }
}
