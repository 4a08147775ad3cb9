import type { Duplex } from 'node:stream';

/** What the server needs of a client's connection: a socket, or a stream within this process. */
export interface ClientStream extends Duplex {
  readonly remoteAddress?: string;
  readonly remotePort?: number;
  setNoDelay(noDelay: boolean): unknown;
  setTimeout(milliseconds: number, onIdle?: () => void): unknown;
  /** Once all that was written has left. */
  destroySoon(): void;
  resetAndDestroy(): unknown;
}
