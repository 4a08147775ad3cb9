/** What the server uses of a client's connection: a socket, or a stream within this process. */
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
  /** Ends the connection once all that was written has left. */
  destroySoon(): void;
  resetAndDestroy(): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'drain' | 'close', listener: () => void): unknown;
  once(event: 'close', listener: () => void): unknown;
}
