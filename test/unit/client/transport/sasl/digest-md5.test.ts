import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  digestMd5,
  parseDirectives,
  respond,
} from '../../../../../lib/client/transport/sasl/digest-md5.js';
import { SaslError } from '../../../../../lib/client/transport/sasl/mechanism.js';

/** The example of RFC 2831, section 4. */
const RFC_2831 = {
  challenge: Buffer.from(
    'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8',
  ),
  input: {
    user: 'chris',
    password: 'secret',
    uri: 'imap/elwood.innosoft.com',
    cnonce: 'OA6MHXh6VqTrRk',
  },
};

const INPUT = { user: 'shop', password: 'secret', uri: 'zookeeper/zk-sasl-md5', cnonce: 'c' };

const challengeWith = (directives: string) =>
  Buffer.from(`nonce="n",algorithm=md5-sess${directives && `,${directives}`}`, 'latin1');

/** Returns the directives of a response, with the password hash of a challenge that has these. */
const responseTo = (directives: string, input: Partial<typeof INPUT> = {}) =>
  parseDirectives(respond(challengeWith(directives), { ...INPUT, ...input }).response);

const failure = (run: () => unknown): Error => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(SaslError);
    return error as Error;
  }
  throw new Error('it did not fail');
};

describe('the response to a challenge', () => {
  test('and the proof of the server are those of the example in RFC 2831', () => {
    const { response, proof } = respond(RFC_2831.challenge, RFC_2831.input);
    expect(Object.fromEntries(parseDirectives(response))).toEqual({
      charset: ['utf-8'],
      username: ['chris'],
      realm: ['elwood.innosoft.com'],
      nonce: ['OA6MG9tEQGm2hh'],
      nc: ['00000001'],
      cnonce: ['OA6MHXh6VqTrRk'],
      'digest-uri': ['imap/elwood.innosoft.com'],
      response: ['d388dad90d4bbd760a152321f2143af7'],
      qop: ['auth'],
    });
    expect(proof).toBe('ea40f60335c427b5527b84dbabcdfffd');
  });

  test('quotes quotation marks and backslashes, and has the first realm', () => {
    const user = 'a"b\\c';
    const { response } = respond(challengeWith('charset=utf-8'), { ...INPUT, user });
    expect(response.toString()).toContain('username="a\\"b\\\\c"');
    expect(parseDirectives(response).get('username')).toEqual([user]);
    // Of several realms, the first one is used.
    expect(responseTo('realm="a",realm="b"').get('realm')).toEqual(['a']);
    expect(responseTo('').has('realm')).toBe(false);
  });

  test('sends a name in UTF-8, but hashes it in ISO 8859-1 if that has all characters', () => {
    const inUtf8 = responseTo('charset=utf-8', { user: 'jürgen' });
    const inLatin1 = responseTo('', { user: 'jürgen' });
    expect(inUtf8.get('username')).toEqual([Buffer.from('jürgen').toString('latin1')]);
    expect(inLatin1.get('username')).toEqual(['jürgen']);
    expect(inUtf8.get('response')).toEqual(inLatin1.get('response'));
    // Without a charset, these two characters are two bytes, which are "é" in UTF-8.
    expect(responseTo('', { user: 'Ã©' }).get('response')).not.toEqual(
      responseTo('', { user: 'é' }).get('response'),
    );
  });

  test.each([
    ['has no nonce', 'algorithm=md5-sess', /malformed: it has no nonce/],
    ['has two nonces', 'nonce="a",nonce="b",algorithm=md5-sess', /2 directives nonce/],
    ['has another algorithm', 'nonce="a",algorithm=md5', /not md5-sess/],
    [
      'requires encryption',
      'nonce="a",algorithm=md5-sess,qop="auth-conf"',
      /auth-conf.*use|auth-conf.*tls/,
    ],
    ['is no list', 'HTTP/1.1 400 Bad Request', /not a list of directives after byte 0/],
    ['is too long', `nonce="${'x'.repeat(2048)}"`, /malformed: it has \d+ bytes/],
  ])('fails if the challenge %s', (_, challenge, message) => {
    const { message: actual } = failure(() => respond(Buffer.from(challenge), INPUT));
    expect(actual).toMatch(message);
    expect(actual).not.toContain('secret');
  });

  test('fails if the server does not support UTF-8, and the password needs it', () => {
    const { message } = failure(() => responseTo('', { password: '密码' }));
    expect(message).toMatch(/sasl\.password must consist of .*8859-1/);
    expect(message).not.toContain('密码');
  });
});

describe('the parser of directives', () => {
  test('skips white space and empty elements, and does not distinguish upper and lower case in names', () => {
    expect(parseDirectives(Buffer.from(' , NONCE = "a, b=c" ,,\r\n\tqop=auth , '))).toEqual(
      new Map([
        ['nonce', ['a, b=c']],
        ['qop', ['auth']],
      ]),
    );
  });

  test('returns the directives of any list that it is given', () => {
    const name = fc.stringMatching(/^[a-z][a-z0-9-]*$/, { maxLength: 10 });
    const value = fc.string({ unit: 'binary-ascii', maxLength: 20 });
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value), { maxLength: 10 }), (list) => {
        const expected = new Map<string, string[]>();
        for (const [key, each] of list) expected.set(key, [...(expected.get(key) ?? []), each]);
        const text = list.map(([key, each]) => `${key}="${each.replace(/["\\]/g, '\\$&')}"`);
        expect(parseDirectives(Buffer.from(text.join(','), 'latin1'))).toEqual(expected);
      }),
    );
  });

  test('returns directives or fails with a SaslError, whatever bytes the server sends', () => {
    const bytes = fc.uint8Array({ maxLength: 300 });
    const nearlyValid = fc
      .array(fc.constantFrom('nonce', 'qop', '=', '"', '\\', ',', ' ', 'auth', '\0', 'é'))
      .map((parts) => Buffer.from(parts.join('')));
    fc.assert(
      fc.property(fc.oneof(bytes, nearlyValid), (token) => {
        try {
          respond(Buffer.from(token), INPUT);
        } catch (error) {
          if (!(error instanceof SaslError)) throw error;
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('an exchange', () => {
  /** Answers the first two tokens, and returns the exchange and the response. */
  function started() {
    const exchange = digestMd5('shop', 'secret')('zk1');
    expect(exchange.answer(Buffer.alloc(0))).toEqual(Buffer.alloc(0));
    const response = exchange.answer(challengeWith('realm="r"')) as Buffer;
    return { exchange, cnonce: parseDirectives(response).get('cnonce')![0]! };
  }

  test('completes when the server proves that it knows the password, and uses another cnonce each time', () => {
    const { exchange, cnonce } = started();
    const { proof } = respond(challengeWith('realm="r"'), { ...INPUT, cnonce });
    expect(exchange.answer(Buffer.from(`rspauth=${proof}`))).toBeUndefined();
    expect(started().cnonce).not.toBe(cnonce);
  });

  test.each([
    ['a wrong proof', Buffer.from(`rspauth=${'0'.repeat(32)}`), /did not prove/],
    ['no proof', Buffer.from('stale=true'), /did not prove/],
    ['no token', null, /did not accept the user "shop"/],
  ])('fails if the server sends %s', (_, token, message) => {
    const { exchange } = started();
    expect(failure(() => exchange.answer(token)).message).toMatch(message);
  });
});
