import { isIP } from 'node:net';
import { connect, type ConnectionOptions, createSecureContext, type TLSSocket } from 'node:tls';
import { BadOptionError } from '../errors.js';
import { isRecord, withheld } from '../validation.js';
import type { Address } from './transport.js';

/**
 * The options of Node's `tls.connect`, except the address, which comes from the connect string.
 *
 * @publicApi
 */
export type TlsOptions = Omit<ConnectionOptions, (typeof ADDRESS_OPTIONS)[number]>;

const ADDRESS_OPTIONS = ['host', 'port', 'path', 'socket', 'lookup'] as const;

/**
 * Returns the options with a secure context: keys and certificates are parsed once for all connections.
 *
 * @throws BadOptionError
 */
export function checkTls(tls: unknown): TlsOptions {
  if (!isRecord(tls))
    throw new BadOptionError('tls', withheld(tls), "an object of Node's TLS options");
  for (const name of ADDRESS_OPTIONS) {
    if (tls[name] !== undefined)
      throw new BadOptionError(`tls.${name}`, withheld(tls[name]), 'left to connectString');
  }
  const { servername } = tls;
  if (servername !== undefined && typeof servername !== 'string') {
    throw new BadOptionError('tls.servername', withheld(servername), 'the name of a host');
  }
  // Node would take an undefined servername instead of the name of the host.
  const given = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
  try {
    return { secureContext: createSecureContext(given), ...given };
  } catch (cause) {
    // The message may contain the value of an option.
    const { code } = cause as NodeJS.ErrnoException;
    const why = code ? ` (Node refuses them with ${code})` : '';
    throw new BadOptionError('tls', withheld(tls), `TLS options that Node takes${why}`);
  }
}

/** Returns a function that opens an encrypted connection to a server. */
export function openTls(options: TlsOptions): (address: Address) => TLSSocket {
  return ({ ip, port, host }) => {
    // A certificate is issued for the name, so the name is verified although an IP address is connected to.
    const servername = isIP(host) ? undefined : host;
    const socket = connect({ servername, ...options, host: ip, port });
    socket.setNoDelay();
    return socket;
  };
}

/** Returns advice for a connection that failed because of TLS; undefined if something else broke it. */
export function tlsAdvice(cause: Error): string | undefined {
  const { code = '' } = cause as NodeJS.ErrnoException;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return 'connect by a name that the certificate has, or set tls.servername to one';
  }
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return NO_TLS;
  // The alert is in the code if Node was reading, and in the message if it was writing.
  if (/alert.*(certificate|ca\b|handshake.failure)/i.test(`${code} ${cause.message}`)) {
    return 'the server rejected the certificate of this client: tls.cert and tls.key must be one that it trusts';
  }
  if (CERTIFICATE.test(code)) {
    return 'this client does not trust the certificate of the server: tls.ca must hold the authority that signed it';
  }
  return /before secure TLS connection/.test(cause.message) ? NO_TLS : undefined;
}

const NO_TLS = "the port must be one that speaks TLS, ZooKeeper's secureClientPort";
/** OpenSSL's error codes for an invalid certificate chain. */
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH/;
