import { BadOptionError } from '../../errors.js';
import type { Mechanism } from './mechanism.js';
import { checkOptions, isRecord, uncheckedRules, withheld } from '../../validation.js';

/**
 * How a client authenticates with SASL: by a password, or by a Kerberos ticket.
 *
 * @publicApi
 */
export type SaslOptions = DigestMd5Options | GssapiOptions;

/**
 * A user of the section `Server` in the JAAS file of the servers. The password is not sent, but the connection is not
 * encrypted either, and MD5 is obsolete: use `tls` too.
 */
export interface DigestMd5Options {
  /** A user and a password. */
  mechanism: 'DIGEST-MD5';
  /** The user `shop` for the entry `user_shop` of the JAAS file. Not empty, without NUL. */
  user: string;
  /** Not empty, without NUL. */
  password: string;
}

/**
 * A Kerberos ticket. It comes from the ticket cache of the process (`kinit`, `KRB5CCNAME`), or the Kerberos library gets and
 * renews it with a key table (`KRB5_CLIENT_KTNAME`). Needs the npm package `kerberos`.
 */
export interface GssapiOptions {
  /** A Kerberos ticket. */
  mechanism: 'GSSAPI';
  /** The first part of the servers' principal `zookeeper/<host>`; default `'zookeeper'`. */
  service?: string | undefined;
  /**
   * The second part of the servers' principal, if all servers have the same one. Default: the name of the server in
   * `connectString`, which the Kerberos library makes canonical if krb5.conf requires it (`dns_canonicalize_hostname`).
   */
  host?: string | undefined;
  /** The principal of the client, if the ticket cache or the key table has several; default: the first one. */
  principal?: string | undefined;
}

/**
 * Loads the code of a mechanism, which most applications do not need. It is a function, so that `inspect()` of the checked
 * options does not show the password.
 */
type LoadMechanism = () => Promise<Mechanism>;

/** @throws BadOptionError without a password in the message */
export function checkSasl(sasl: unknown): LoadMechanism {
  if (!isRecord(sasl)) {
    const expected =
      "an object { mechanism: 'DIGEST-MD5', user, password } or { mechanism: 'GSSAPI' }";
    throw new BadOptionError('sasl', withheld(sasl), expected);
  }
  const { mechanism } = sasl;
  if (mechanism === 'DIGEST-MD5') {
    checkOptions(sasl, uncheckedRules('mechanism', 'user', 'password'), 'sasl');
    const user = checkField(sasl, 'user', NON_EMPTY, 'a non-empty string without NUL');
    const password = checkField(sasl, 'password', NON_EMPTY, 'a non-empty string without NUL');
    return async () => (await import('./digest-md5.js')).digestMd5(user, password);
  }
  if (mechanism === 'GSSAPI') {
    checkOptions(sasl, uncheckedRules('mechanism', 'service', 'host', 'principal'), 'sasl');
    const check = (field: string, pattern: RegExp, expected: string) =>
      sasl[field] === undefined ? undefined : checkField(sasl, field, pattern, expected);
    const service =
      check('service', NAME, "a name without '/' and '@', such as 'zookeeper'") ?? 'zookeeper';
    const host = check('host', NAME, "a name without '/' and '@', such as 'zk.example.com'");
    const principal = check('principal', NON_EMPTY, "a principal such as 'shop@EXAMPLE.COM'");
    return async () => (await import('./gssapi.js')).gssapi(service, host, principal);
  }
  throw new BadOptionError('sasl.mechanism', withheld(mechanism), "'DIGEST-MD5' or 'GSSAPI'");
}

const NON_EMPTY = /^[^\0]+$/;
const NAME = /^[^/@\s\0]+$/;

function checkField(
  sasl: Record<string, unknown>,
  field: string,
  pattern: RegExp,
  expected: string,
): string {
  const value = sasl[field];
  if (typeof value === 'string' && pattern.test(value)) return value;
  throw new BadOptionError(`sasl.${field}`, withheld(value), expected);
}
