import { Duplex } from 'node:stream';
import type { ClientStream } from './client-stream.js';

/** One end of a connection within this process. What it writes, the other one reads in a later turn. */
class End extends Duplex implements ClientStream {
  readonly remoteAddress = '127.0.0.1';
  readonly remotePort = 0;
  other!: End;
  #read: (() => void) | undefined;

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    setImmediate(() => this.other.#receive(chunk, done));
  }

  override _final(done: () => void): void {
    setImmediate(() => this.other.#receive(null, done));
  }

  override _read(): void {
    this.#read?.();
    this.#read = undefined;
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // Whoever writes to it waits no longer, and the other end learns of it.
    this._read();
    setImmediate(() => this.other.destroy());
    done(error);
  }

  setNoDelay(): this {
    return this;
  }

  /** Nobody is silent for long within a process. */
  setTimeout(): this {
    return this;
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  resetAndDestroy(): this {
    return this.destroy();
  }

  /** The writer goes on when there is room. */
  #receive(chunk: Buffer | null, done: () => void): void {
    if (this.destroyed || this.push(chunk)) done();
    else this.#read = done;
  }
}

/** The two ends of a connection. */
export function connectionWithin(): readonly [client: Duplex, server: ClientStream] {
  const ends = [new End(), new End()] as const;
  ends[0].other = ends[1];
  ends[1].other = ends[0];
  return ends;
}
