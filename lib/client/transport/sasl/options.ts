import { BadOptionError } from '../../errors.js';
import type { Mechanism } from './mechanism.js';
import { checkOptions, isRecord, withheld } from '../../validation.js';
import { uncheckedRules } from '../../option-rules.js';

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
export type LoadMechanism = () => Promise<Mechanism>;

/** @throws BadOptionError without a password in the message */
export function checkSasl(sasl: unknown): LoadMechanism {
  if (!isRecord(sasl)) {
    const expected =
      "an object { mechanism: 'DIGEST-MD5', user, password } or { mechanism: 'GSSAPI' }";
    throw new BadOptionError('sasl', withheld(sasl), expected);
  }
  const { mechanism } = sasl;
  if (mechanism === 'DIGEST-MD5') {
    const given = checkOptions(sasl, uncheckedRules('mechanism', 'user', 'password'), 'sasl');
    const user = checkSecret(given.user, 'sasl.user');
    const password = checkSecret(given.password, 'sasl.password');
    return async () => {
      const { DigestMd5 } = await import('./digest-md5.js');
      return new DigestMd5(user, password);
    };
  }
  if (mechanism === 'GSSAPI') {
    const given = checkOptions(
      sasl,
      uncheckedRules('mechanism', 'service', 'host', 'principal'),
      'sasl',
    );
    const service = checkName(
      given.service === undefined ? 'zookeeper' : given.service,
      'sasl.service',
      'zookeeper',
    );
    const host =
      given.host === undefined ? undefined : checkName(given.host, 'sasl.host', 'zk.example.com');
    const principal = given.principal === undefined ? undefined : checkPrincipal(given.principal);
    return async () => {
      const { Gssapi } = await import('./gssapi.js');
      return new Gssapi(service, host, principal);
    };
  }
  throw new BadOptionError('sasl.mechanism', withheld(mechanism), "'DIGEST-MD5' or 'GSSAPI'");
}

function checkSecret(value: unknown, option: string): string {
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) return value;
  throw new BadOptionError(option, withheld(value), 'a non-empty string without NUL');
}

function checkName(value: unknown, option: string, example: string): string {
  if (typeof value === 'string' && /^[^/@\s\0]+$/.test(value)) return value;
  throw new BadOptionError(
    option,
    withheld(value),
    `a name without '/' and '@', such as '${example}'`,
  );
}

function checkPrincipal(value: unknown): string {
  if (typeof value === 'string' && /^[^\0]+$/.test(value)) return value;
  throw new BadOptionError(
    'sasl.principal',
    withheld(value),
    "a principal such as 'shop@EXAMPLE.COM'",
  );
}
