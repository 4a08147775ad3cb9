import { describe, expect, test } from 'vitest';
import { parseConnectString } from '../../../lib/client/hosts.js';
import { BadOptionError, ZkClient } from '../../../lib/client/index.js';
import { CLIENT_OPTIONS, normalizeOptions } from '../../../lib/client/options.js';
import { refusal } from '../../support/refusal.js';

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

  test('undefined counts as left out', () => {
    const names = CLIENT_OPTIONS.filter((name) => name !== 'connectString');
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

  test('a password is in no error message', () => {
    const auth = [{ scheme: 'digest', user: 'u', password: 'geheim\0' }];
    expect(refusal({ auth }).message).not.toContain('geheim');
    expect(refusal({ token: 'geheim' }).message).not.toContain('geheim');
  });
});
