import { createHash, randomBytes } from 'node:crypto';
import { Exchange, type Mechanism, SaslError } from './mechanism.js';

/*
 * The mechanism DIGEST-MD5 (RFC 2831) for ZooKeeper, with the quality of protection `auth`:
 *
 *     client ── empty token ────────────────────────▶ server
 *            ◀── challenge: nonce, realm ────────────
 *            ── response: hash of the password, … ──▶
 *            ◀── rspauth: proof of the server ───────
 *
 * Directives are handled as strings of one character per byte, because a challenge must be parsed before its encoding
 * is known.
 */

/** The service and the server name of every ZooKeeper server in this mechanism. */
const DIGEST_URI = 'zookeeper/zk-sasl-md5';
/** Bytes. RFC 2831 limits a challenge to fewer. */
const MAX_CHALLENGE = 2048;
const NONCE_BYTES = 24;

/** Returns the mechanism with the user and the password of a client. */
export const digestMd5 =
  (user: string, password: string): Mechanism =>
  () =>
    new DigestMd5Exchange(user, password);

class DigestMd5Exchange extends Exchange {
  readonly mechanism = 'DIGEST-MD5';
  readonly #user: string;
  readonly #password: string;
  #step: 'start' | 'challenge' | 'proof' = 'start';
  #proof = '';

  constructor(user: string, password: string) {
    super();
    this.#user = user;
    this.#password = password;
  }

  answer(token: Buffer | null): Buffer | undefined {
    switch (this.#step) {
      case 'start':
        this.#step = 'challenge';
        return Buffer.alloc(0);
      case 'challenge': {
        this.#step = 'proof';
        const { response, proof } = respond(token ?? Buffer.alloc(0), {
          user: this.#user,
          password: this.#password,
          uri: DIGEST_URI,
          cnonce: randomBytes(NONCE_BYTES).toString('base64'),
        });
        this.#proof = proof;
        return response;
      }
      case 'proof':
        this.#checkProof(token);
        return undefined;
    }
  }

  protected refusal(): { refused: string; advice: string } {
    if (this.#step === 'challenge') {
      return {
        refused: 'the mechanism DIGEST-MD5',
        advice:
          "The section Server of its JAAS file must use DigestLoginModule, or sasl.mechanism must be 'GSSAPI'",
      };
    }
    const user = this.#user;
    return {
      refused: `the user ${JSON.stringify(user)} or its password`,
      advice: `sasl.user and sasl.password must be those of an entry user_${user}="<password>" in the section Server of its JAAS file`,
    };
  }

  #checkProof(token: Buffer | null): void {
    if (!token) {
      throw new SaslError(
        `the server did not accept the user ${JSON.stringify(this.#user)} and its password, and did not reject the connection either (zookeeper.allowSaslFailedClients). Correct sasl.user and sasl.password`,
      );
    }
    if (parseDirectives(token).get('rspauth')?.[0] !== this.#proof) {
      throw new SaslError(
        'the server did not prove that it knows the password, so it may be an impostor. Check the address in connectString, and use tls',
      );
    }
  }
}

/** What a response is computed from, in addition to the challenge. */
interface ResponseInput {
  readonly user: string;
  readonly password: string;
  readonly uri: string;
  readonly cnonce: string;
}

/**
 * Returns the response to a challenge, and the `rspauth` with which the server must answer.
 *
 * @throws SaslError
 */
export function respond(
  challenge: Buffer,
  { user, password, uri, cnonce }: ResponseInput,
): { response: Buffer; proof: string } {
  const directives = parseDirectives(challenge);
  const nonce = single(directives, 'nonce');
  if (nonce === undefined) throw malformed('it has no nonce');
  if (single(directives, 'algorithm') !== 'md5-sess')
    throw malformed('its algorithm is not md5-sess');
  const offered = single(directives, 'qop') ?? 'auth';
  if (!offered.split(',').some((qop) => qop.trim() === 'auth')) {
    throw new SaslError(
      `the server requires the quality of protection ${JSON.stringify(offered)}, and this client supports auth only. Allow auth on the server, and encrypt with tls`,
    );
  }
  const isUtf8 = single(directives, 'charset')?.toLowerCase() === 'utf-8';
  const encode = isUtf8 ? utf8 : latin1;
  const name = encode(user);
  const realm = directives.get('realm')?.[0];

  const secrets = [name, realm ?? '', encode(password)];
  const session = md5((isUtf8 ? secrets.map(toLatin1IfPossible) : secrets).join(':'), 'latin1');
  const a1 = md5(`${session}:${nonce}:${cnonce}`, 'hex');
  const digest = (a2: string) =>
    md5(`${a1}:${nonce}:00000001:${cnonce}:auth:${md5(a2, 'hex')}`, 'hex');

  const fields = [
    ...(isUtf8 ? ['charset=utf-8'] : []),
    `username=${quoted(name)}`,
    ...(realm === undefined ? [] : [`realm=${quoted(realm)}`]),
    `nonce=${quoted(nonce)}`,
    'nc=00000001',
    `cnonce=${quoted(cnonce)}`,
    `digest-uri=${quoted(uri)}`,
    `response=${digest(`AUTHENTICATE:${uri}`)}`,
    'qop=auth',
  ];
  return { response: Buffer.from(fields.join(','), 'latin1'), proof: digest(`:${uri}`) };
}

/**
 * Parses the directives of a token, `name=value` or `name="value"`, separated by commas.
 *
 * @throws SaslError
 */
export function parseDirectives(token: Buffer): Map<string, string[]> {
  if (token.length > MAX_CHALLENGE) throw malformed(`it has ${token.length} bytes`);
  const text = token.toString('latin1');
  const directives = new Map<string, string[]>();
  // Sticky: each match begins where the last one ended. No two parts of it match the same character.
  const directive = /[\s,]*(?:([^\s,="]+)\s*=\s*(?:"((?:[^"\\]|\\[^])*)"|([^\s,"]+))\s*(?=,|$)|$)/y;
  while (directive.lastIndex < text.length) {
    const at = directive.lastIndex;
    const match = directive.exec(text);
    if (!match) throw malformed(`it is not a list of directives after byte ${at}`);
    const [, name, quotedValue, value] = match;
    if (name === undefined) break;
    const values = directives.get(name.toLowerCase()) ?? [];
    values.push(quotedValue === undefined ? value! : quotedValue.replace(/\\([^])/g, '$1'));
    directives.set(name.toLowerCase(), values);
  }
  return directives;
}

/** Returns the value of a directive that may occur once. */
function single(directives: ReadonlyMap<string, string[]>, name: string): string | undefined {
  const values = directives.get(name) ?? [];
  if (values.length > 1) throw malformed(`it has ${values.length} directives ${name}`);
  return values[0];
}

function malformed(why: string): SaslError {
  return new SaslError(
    `the challenge of the server is malformed: ${why}. Check that connectString names a ZooKeeper server`,
  );
}

function quoted(value: string): string {
  return `"${value.replace(/["\\]/g, '\\$&')}"`;
}

function utf8(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function latin1(text: string): string {
  if (!/^[\0-\u00ff]*$/.test(text)) {
    throw new SaslError(
      'the server does not support UTF-8. sasl.user and sasl.password must consist of characters of ISO 8859-1',
    );
  }
  return text;
}

/**
 * Converts bytes of UTF-8 to ISO 8859-1 if all of the characters exist there, as RFC 2831 requires for the hash of the
 * password.
 */
function toLatin1IfPossible(bytes: string): string {
  const text = Buffer.from(bytes, 'latin1').toString();
  return /^[\0-\u00ff]*$/.test(text) ? text : bytes;
}

function md5(text: string, encoding: 'hex' | 'latin1'): string {
  return createHash('md5').update(text, 'latin1').digest().toString(encoding);
}
