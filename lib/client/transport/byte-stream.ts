import { connect as connectTcp, isIP } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { unreachableError } from './attach-errors.js';
import type { TlsOptions } from './tls.js';
import type { Address } from './transport.js';

/** A bidirectional stream of bytes: the part of a socket that the wire transport uses. */
export interface ByteStream {
  readonly destroyed: boolean;
  readonly writableNeedDrain: boolean;
  write(bytes: Buffer): boolean;
  destroy(error?: Error): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'drain' | 'end' | 'close', listener: () => void): unknown;
}

/** Opens a stream to a server. */
export type Open = (address: Address) => ByteStream;

export const openTcp: Open = ({ ip, port }) => connectTcp({ host: ip, port, noDelay: true });

export function openTls(options: TlsOptions): Open {
  return ({ ip, port, host }) => {
    // A certificate is issued for the name, so the name is verified although an IP address is connected to.
    const servername = isIP(host) ? undefined : host;
    const socket = connectTls({ servername, ...options, host: ip, port });
    socket.setNoDelay();
    return socket;
  };
}

/**
 * Resolves if a TCP connection to the address succeeds, after that connection is closed.
 *
 * @throws ConnectionError if it fails, or the signal's reason
 */
export function probe(address: Address, signal: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    if (signal.aborted) return fail(signal.reason);
    const socket = connectTcp({ host: address.ip, port: address.port });
    let failure: unknown;
    const abort = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    socket.on('connect', () => socket.destroy());
    socket.on('error', (error) => (failure = error));
    socket.on('close', () => {
      signal.removeEventListener('abort', abort);
      if (signal.aborted) return fail(signal.reason);
      if (failure === undefined) return setImmediate(done);
      fail(unreachableError(address, failure));
    });
  });
}
