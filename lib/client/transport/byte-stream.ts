import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { TlsOptions } from './tls.js';
import type { Address } from './transport.js';

/** A stream of bytes in both directions: what the wire transport uses of a socket. */
export interface ByteStream {
  readonly destroyed: boolean;
  readonly writableNeedDrain: boolean;
  write(bytes: Buffer): boolean;
  destroy(error?: Error): unknown;
  on(event: 'data', listener: (bytes: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'drain' | 'end' | 'close', listener: () => void): unknown;
}

/** Opens the stream of bytes to a server. */
export type Open = (address: Address) => ByteStream;

const READ_SIZE = 64 * 1024;

export const openTcp: Open = ({ ip, port }) => {
  const socket: Socket = connectTcp({
    host: ip,
    port,
    noDelay: true,
    // Node makes a buffer of that size for whatever comes in, if only a short answer: with one for all
    // a request costs a quarter less. Short answers are copied into a pool.
    onread: {
      buffer: Buffer.allocUnsafeSlow(READ_SIZE),
      callback: (length, buffer) => socket.emit('data', Buffer.from(buffer.subarray(0, length))),
    },
  });
  return socket;
};

export function openTls(options: TlsOptions): Open {
  return ({ ip, port, host }) => {
    // The certificate is the name's, where the user wrote a name.
    const servername = isIP(host) ? undefined : host;
    const socket = connectTls({ servername, ...options, host: ip, port });
    socket.setNoDelay();
    return socket;
  };
}
