import { Duplex } from 'node:stream';

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

/** One end of a connection within this process. The other end reads its writes in a later turn of the event loop. */
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
    // Completes the other end's pending write, and destroys the other end.
    this._read();
    setImmediate(() => this.other.destroy());
    done(error);
  }

  setNoDelay(): this {
    return this;
  }

  /** A connection within a process needs no idle timeout. */
  setTimeout(): this {
    return this;
  }

  destroySoon(): void {
    this.end(() => this.destroy());
  }

  resetAndDestroy(): this {
    return this.destroy();
  }

  /** Calls `done` when there is room for more. */
  #receive(chunk: Buffer | null, done: () => void): void {
    if (this.destroyed || this.push(chunk)) done();
    else this.#read = done;
  }
}

/** Returns the two ends of a connection within this process. */
export function inProcessConnection(): readonly [client: Duplex, server: ClientStream] {
  const ends = [new End(), new End()] as const;
  ends[0].other = ends[1];
  ends[1].other = ends[0];
  return ends;
}
