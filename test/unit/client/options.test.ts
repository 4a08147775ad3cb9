import { generateKeyPairSync } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parseConnectString } from '../../../lib/client/hosts.js';
import { BadOptionError, ZkClient } from '../../../lib/client/index.js';
import { CLIENT_RULES, normalizeOptions } from '../../../lib/client/options.js';
import { refusal } from '../../support/refusal.js';

const SECRET = 's3cretPW';
const SECRET_NUMBER = 87654321;
/** A private key that is encrypted with another passphrase. */
const { privateKey: KEY } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'other' },
});

describe('connectString', () => {
  test('lists hosts with ports and may end with a chroot', () => {
    expect(parseConnectString('zk1:2182, zk2:2183/apps/shop')).toEqual({
      hosts: [
        { host: 'zk1', port: 2182, label: 'zk1:2182' },
        { host: 'zk2', port: 2183, label: 'zk2:2183' },
      ],
      chroot: '/apps/shop',
    });
  });

  test('uses port 2181 by default and ignores a chroot of /', () => {
    expect(parseConnectString(' localhost/ ')).toEqual({
      hosts: [{ host: 'localhost', port: 2181, label: 'localhost:2181' }],
      chroot: '',
    });
  });

  test('accepts IPv6 literals in brackets', () => {
    expect(parseConnectString('[::1]:2185,[fe80::1]').hosts).toEqual([
      { host: '::1', port: 2185, label: '[::1]:2185' },
      { host: 'fe80::1', port: 2181, label: '[fe80::1]:2181' },
    ]);
  });

  test('ignores duplicate hosts', () => {
    expect(parseConnectString('a:1,b:1,A:1').hosts.map((host) => host.label)).toHaveLength(2);
  });

  test.each(['http://zk:2181', 'zookeeper://a:2181/x', 'a:2181, HTTPS://b'])(
    'accepts no scheme: %s',
    (text) => {
      expect(refusal({ connectString: text })).toMatchObject({
        option: 'connectString',
        message: expect.stringContaining('hosts without a scheme') as string,
      });
    },
  );

  test.each([
    [''],
    [undefined],
    ['a,,b'],
    ['a:0'],
    ['a:65536'],
    ['::1:2181'],
    ['[a]:2181'],
    ['a b:2181'],
    ['a:2181//x'],
    ['a:2181/x/../y'],
    ['a\0b:2181'],
    [`${process.env.A_VARIABLE_THAT_IS_NOT_SET}:2181`],
    ['zk1:2181,null'],
  ])('refuses %j', (text) => {
    expect(refusal({ connectString: text }).option).toContain('connectString');
  });
});

describe('the options of a client', () => {
  const connectString = '127.0.0.1:2181';

  test('have the documented defaults', () => {
    expect(normalizeOptions({ connectString })).toMatchObject({
      sessionTimeout: 30_000,
      connectTimeout: 5000,
      namespace: '',
      policy: 'session',
      authInfo: [],
      acl: undefined,
    });
  });

  test.each([
    ['shop', '/shop'],
    ['/shop', '/shop'],
    ['a/b', '/a/b'],
    ['', ''],
    ['/', ''],
    [undefined, ''],
  ])('make the namespace %j %j', (namespace, expected) => {
    expect(new ZkClient({ connectString, namespace }).namespace).toBe(expected);
  });

  test.each([
    ['conectString', 'connectString'],
    ['connectionString', 'connectString'],
    ['session_timeout', 'sessionTimeout'],
    ['Namespace', 'namespace'],
    ['namepsace', 'namespace'],
    ['polcy', 'policy'],
    ['TLS', 'tls'],
    ['servers', undefined],
    ['', undefined],
  ])('for %j, the error suggests %s', (name, suggested) => {
    const { message } = refusal({ [name]: 5 });
    const hint = suggested ? `did you mean ${suggested}?` : 'known options: connectString, ';
    expect(message).toContain(`unknown option ${name} in options: ${hint}`);
  });

  test.each([
    ['auth', { scheme: 'digest', user: 'u', password: 'p', realm: 'r' }, 'realm'],
    ['acl', { scheme: 'world', id: 'anyone', permissions: 'r', perms: 'r' }, 'perms'],
  ])('an entry of %s with an unknown name is refused', (name, entry, unknown) => {
    const { option, message } = refusal({ [name]: [entry] });
    expect(option).toBe(unknown);
    expect(message).toContain(`unknown option ${unknown} in ${name}[0]: `);
  });

  test('undefined counts as left out', () => {
    const names = Object.keys(CLIENT_RULES).filter((name) => name !== 'connectString');
    const options = Object.fromEntries(names.map((name) => [name, undefined]));
    expect(new ZkClient({ connectString, ...options }).policy).toBe('session');
  });

  test.each([
    ['sessionTimeout', 0],
    ['sessionTimeout', Number.NaN],
    ['sessionTimeout', Infinity],
    ['sessionTimeout', 2 ** 31],
    ['sessionTimeout', 1000n],
    ['sessionTimeout', Symbol('t')],
    ['connectTimeout', 0],
    ['namespace', 5],
    ['namespace', 'a//b'],
    ['namespace', '../x'],
    ['policy', 'strict'],
    ['auth', 'user:password'],
    ['auth', [{ scheme: 'sasl', user: 'u', password: 'p' }]],
    ['auth', [{ scheme: 'digest', user: 'u:v', password: 'p' }]],
    ['auth', [{ scheme: 'digest', user: '', password: 'p' }]],
    ['auth', [{ scheme: 'digest', user: 'u', password: '' }]],
    ['auth', [null]],
    ['acl', []],
    ['acl', {}],
    ['acl', [null]],
    ['acl', [{ scheme: 'world', id: 'me', permissions: 'r' }]],
    ['acl', [{ scheme: 'world', id: 'anyone', permissions: '' }]],
    ['acl', [{ scheme: 'world', id: 'anyone', permissions: 'rr' }]],
    ['acl', [{ scheme: 'world', id: 'anyone', permissions: 31 }]],
    ['acl', [{ scheme: 'digest', id: 'user:password', permissions: 'r' }]],
    ['acl', [{ scheme: 'sasl', id: '', permissions: 'r' }]],
    ['acl', [{ scheme: 'ip', id: '10.0.0.0/33', permissions: 'r' }]],
    ['acl', [{ scheme: Symbol('s'), id: 'x', permissions: 'r' }]],
    ['retry', { type: 'sometimes' }],
  ])('%s rejects %o', (name, value) => {
    const error = refusal({ [name]: value });
    expect(error.option).toContain(name);
    expect(error.code).toBe('BAD_OPTION');
  });

  test.each([[undefined], [null], ['127.0.0.1:2181'], [[]]])(
    'the options object must not be %o',
    (options) => {
      expect(() => new ZkClient(options as never)).toThrow(BadOptionError);
    },
  );

  const DIGEST = `digest:shop:${SECRET}`;
  test.each<[option: string, value: unknown]>([
    ['token', SECRET],
    ['connectString', `shop:${SECRET}@zk1:2181`],
    ['connectString', `zk://shop:${SECRET}@zk1`],
    ['connectString', `shop:s3/${SECRET}//@zk1`],
    ['connectString', [`shop:${SECRET}@zk1`]],
    ['connectString', DIGEST],
    ['connectString', `shop:22/${SECRET}/@zk1:2181/`],
    ['connectString', `zk1:2181/shop//${DIGEST}`],
    ['auth', DIGEST],
    ['auth[0]', [DIGEST]],
    ['auth[0].scheme', [{ scheme: DIGEST }]],
    ['auth[0].user', [{ scheme: 'digest', user: `shop:${SECRET}`, password: 'x' }]],
    ['auth[0].password', [{ scheme: 'digest', user: 'u', password: `${SECRET}\0` }]],
    ['acl', `${DIGEST}:cdrwa`],
    ['acl', { scheme: 'auth', id: `shop:${SECRET}`, permissions: 'r' }],
    ['acl[0]', [`${DIGEST}:cdrwa`]],
    ['acl[0].scheme', [{ scheme: DIGEST, id: '', permissions: 'r' }]],
    ['acl[0].id', [{ scheme: 'auth', id: `shop:${SECRET}`, permissions: 'r' }]],
    ['acl[0].id', [{ scheme: 'world', id: `shop:${SECRET}`, permissions: 'r' }]],
    ['acl[0].permissions', [{ scheme: 'auth', id: '', permissions: SECRET }]],
    ['tls', SECRET],
    ['tls', { key: '-----BEGIN X', passphrase: SECRET }],
    ['tls', { key: KEY, passphrase: SECRET }],
    ['tls', { key: KEY, passphrase: SECRET_NUMBER }],
    ['tls', { minVersion: SECRET }],
    ['tls', { maxVersion: SECRET }],
    ['tls', { secureProtocol: SECRET }],
    ['tls.host', { host: SECRET }],
    ['tls.servername', { servername: { name: SECRET } }],
  ])('the error for %s does not contain the secret (case %#)', (option, value) => {
    const error = refusal({ [option.replace(/[[.].*/, '')]: value });
    expect(error.option).toBe(option);
    const shown = inspect(error, { depth: 9, showHidden: true });
    for (const secret of [SECRET, String(SECRET_NUMBER), 'PRIVATE']) {
      expect(shown).not.toContain(secret);
    }
  });

  test('a connect string in place of the options is in no error', () => {
    const make = () => new ZkClient(`shop:${SECRET}@zk1` as never);
    expect(make).toThrow(BadOptionError);
    expect(make).not.toThrow(SECRET);
  });

  test('the error for credentials in connectString names the options that take them', () => {
    expect(refusal({ connectString: `shop:${SECRET}@zk1:2181` }).message).toBe(
      'connectString must be hosts without credentials, which auth or sasl takes, but is "<string>"',
    );
  });
});
