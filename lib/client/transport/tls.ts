import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { BadOptionError } from '../errors.js';
import { isRecord, withheld } from '../validation.js';

/**
 * What Node's `tls.connect` takes, except where to: that is the connect string's.
 *
 * @publicApi
 */
export type TlsOptions = Omit<ConnectionOptions, (typeof WHERE)[number]>;

const WHERE = ['host', 'port', 'path', 'socket', 'lookup'] as const;

/** With keys and certificates read, once for all connections. */
export function checkTls(tls: unknown): TlsOptions {
  if (!isRecord(tls))
    throw new BadOptionError('tls', withheld(tls), "an object of Node's TLS options");
  for (const name of WHERE) {
    if (name in tls) throw new BadOptionError(`tls.${name}`, tls[name], 'left to connectString');
  }
  try {
    return { secureContext: createSecureContext(tls), ...tls };
  } catch (cause) {
    const { message } = cause as Error;
    throw new BadOptionError('tls', tls, `TLS options that Node takes (${message})`, { cause });
  }
}

/** What to do about a connection that was refused for its encryption; undefined where something else broke it. */
export function tlsAdvice(cause: Error): string | undefined {
  const { code = '' } = cause as NodeJS.ErrnoException;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return 'connect by a name that the certificate has, or set tls.servername to one';
  }
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return NO_TLS;
  // Node says it in the code where it was reading, in the message where it was writing.
  if (/alert.*(certificate|ca\b|handshake.failure)/i.test(`${code} ${cause.message}`)) {
    return 'the server did not take the certificate of this client: tls.cert and tls.key must be one that it trusts';
  }
  if (CERTIFICATE.test(code)) {
    return 'the certificate of the server is not one that this client trusts: tls.ca must hold the authority that signed it';
  }
  return /before secure TLS connection/.test(cause.message) ? NO_TLS : undefined;
}

const NO_TLS = "the port must be one that speaks TLS, ZooKeeper's secureClientPort";
/** OpenSSL's names for what is wrong with a chain. */
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH/;
