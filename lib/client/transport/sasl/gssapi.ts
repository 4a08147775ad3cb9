import { createRequire } from 'node:module';
import { BadOptionError } from '../../errors.js';
import { Exchange, type Mechanism, SaslError } from './mechanism.js';

/*
 * The mechanism GSSAPI (RFC 4752) with Kerberos tickets. The native code of the npm package `kerberos` makes the tokens:
 *
 *     client ── ticket for the server ──────────────▶ server
 *            ◀── proof of the server ────────────────
 *            ── empty token ────────────────────────▶
 *            ◀── wrapped: security layers, size ─────
 *            ── wrapped: no security layer ─────────▶
 *            ◀── no token ───────────────────────────
 */

// The package is optional and has native code, so bundlers must not look for it: Node loads it at run time.
const load = createRequire(import.meta.url);

/** The part of the npm package `kerberos` that is used. Tokens are in Base64. */
interface Kerberos {
  readonly GSS_MECH_OID_KRB5: number;
  initializeClient(
    service: string,
    options: { mechOID: number; principal?: string },
  ): Promise<KerberosClient>;
}

interface KerberosClient {
  readonly contextComplete: boolean;
  step(token: string): Promise<string | null>;
  unwrap(token: string): Promise<string>;
  /** With `user`, it wraps the client's choice of no security layer, with the maximum size that it reads from `token`. */
  wrap(token: string, options: { user: string }): Promise<string>;
}

/** In the first byte of the server's offer: connections without a security layer are allowed. */
const NO_LAYER = 1;
/** The `token` of that call, for the maximum size 0. The package reads 8 bytes of it. */
const NO_SIZE = Buffer.alloc(8).toString('base64');

/**
 * Returns the mechanism for a client whose ticket is in the cache or the key table of this machine.
 *
 * @param service the first part of the servers' principals
 * @param host the second part; default: the name in the connect string
 * @param principal of the client; default: that of the ticket cache
 */
export const gssapi =
  (service: string, host: string | undefined, principal: string | undefined): Mechanism =>
  (serverHost) =>
    new GssapiExchange(loadKerberos(), `${service}@${host ?? serverHost}`, principal);

class GssapiExchange extends Exchange {
  readonly mechanism = 'GSSAPI';
  #client: KerberosClient | undefined;
  #step: 'context' | 'layer' | 'over' = 'context';

  constructor(
    private readonly kerberos: Kerberos,
    private readonly server: string,
    private readonly principal: string | undefined,
  ) {
    super();
  }

  async answer(token: Buffer | null): Promise<Buffer | undefined> {
    if (this.#step === 'over') return undefined;
    try {
      const answer = await (this.#step === 'context'
        ? this.#establish(token ?? Buffer.alloc(0))
        : this.#chooseLayer(token ?? Buffer.alloc(0)));
      return Buffer.from(answer ?? '', 'base64');
    } catch (error) {
      throw error instanceof SaslError ? error : this.#explain(error as Error);
    }
  }

  protected refusal(): { refused: string; advice: string } {
    const principal = this.server.replace('@', '/');
    return {
      refused: 'the Kerberos ticket, or the name in it',
      advice: `The section Server of its JAAS file must use Krb5LoginModule with the principal ${principal} and a key table with its current key. The server must map the realm of this client to a name (zookeeper.security.auth_to_local)`,
    };
  }

  async #establish(token: Buffer): Promise<string | null> {
    const { GSS_MECH_OID_KRB5: mechOID } = this.kerberos;
    const { principal } = this;
    this.#client ??= await this.kerberos.initializeClient(this.server, {
      mechOID,
      ...(principal !== undefined && { principal }),
    });
    const answer = await this.#client.step(token.toString('base64'));
    if (this.#client.contextComplete) this.#step = 'layer';
    return answer;
  }

  async #chooseLayer(token: Buffer): Promise<string> {
    const offer = Buffer.from(await this.#client!.unwrap(token.toString('base64')), 'base64');
    if (offer.length !== 4 || !(offer[0]! & NO_LAYER)) {
      throw new SaslError(
        'the server requires a security layer of SASL, and this client supports none. Set javax.security.sasl.qop of the server to auth, and encrypt with tls',
      );
    }
    this.#step = 'over';
    return this.#client!.wrap(NO_SIZE, { user: '' });
  }

  /** Adds to an error of the Kerberos library what the caller can do. */
  #explain(cause: Error): SaslError {
    const { message } = cause;
    const principal = this.server.replace('@', '/');
    const [, advice = ADVICE_FOR_OTHERS] = ADVICE.find(([pattern]) => pattern.test(message)) ?? [];
    return new SaslError(
      `${message}. ${advice.replace('%s', principal)}`,
      UNREACHABLE.test(message),
      { cause },
    );
  }
}

/** Messages of MIT's and Heimdal's library for which another attempt may succeed. */
const UNREACHABLE = /contact any KDC|unable to reach any KDC|resource temporarily/i;

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [UNREACHABLE, 'Check the network, and the servers of the realm in krb5.conf'],
  [
    /expired/i,
    'Get a new ticket with kinit, or let the library renew it: set KRB5_CLIENT_KTNAME to a key table of this client',
  ],
  [
    /not found in Kerberos database|wrong principal/i,
    "The principal of the server is %s: set sasl.service, sasl.host or the name in connectString to that of the server's key table",
  ],
  [
    /invalid token/i,
    "The server may use another mechanism: the section Server of its JAAS file must use Krb5LoginModule, or sasl.mechanism must be 'DIGEST-MD5'",
  ],
  [/clock skew/i, 'Synchronize the clocks of this machine, of the server and of the KDC'],
  [
    /no kerberos credentials|no credentials|credentials cache|can't find client principal|client keytab/i,
    'Get a ticket with kinit as the user of this process, or set KRB5CCNAME to its cache or KRB5_CLIENT_KTNAME to a key table',
  ],
];

const ADVICE_FOR_OTHERS =
  'The principal of the server is %s. Try the same with kinit and kvno on this machine';

/** @throws BadOptionError if the package is not installed, or its native code was not built */
function loadKerberos(): Kerberos {
  try {
    return load('kerberos') as Kerberos;
  } catch (cause) {
    const expected =
      "'DIGEST-MD5', unless the npm package `kerberos` can be loaded: run `npm install kerberos`, and approve its install script if npm asks. It needs Kerberos' headers (libkrb5-dev), python3, make and g++ unless a build for this platform can be downloaded";
    throw new BadOptionError('sasl.mechanism', 'GSSAPI', expected, { cause });
  }
}
