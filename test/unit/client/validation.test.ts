import { describe, expect, test } from 'vitest';
import { BadOptionError } from '../../../lib/client/index.js';
import {
  checkAcl,
  checkData,
  checkMode,
  checkPath,
  checkRequest,
  checkVersion,
  MAX_REQUEST,
} from '../../../lib/client/validation.js';

test.each([
  ['x'.repeat(2000), `"${'x'.repeat(200)}…" (2000 characters)`],
  ['x'.repeat(200), `"${'x'.repeat(200)}"`],
  [10n ** 1999n, `1${'0'.repeat(199)}… (2001 characters)`],
  [Symbol('x'.repeat(1992)), `Symbol(${'x'.repeat(193)}… (2000 characters)`],
])('an error shows only the beginning and the length of a long value', (value, shown) => {
  const error = new BadOptionError('key', value, 'short');
  expect(error.message).toBe(`key must be short, but is ${shown}`);
  expect(error.value).toBe(value);
});

describe('checkPath()', () => {
  test.each([['/'], ['/a'], ['/a/b-c.d'], ['/...'], ['/.a/b.'], ['/é-日本'], ['/ '], ['/a%2Fb']])(
    'accepts %j',
    (path) => expect(checkPath(path)).toBe(path),
  );

  test.each([
    [''],
    ['a'],
    ['a/b'],
    ['/a/'],
    ['/a//b'],
    ['/.'],
    ['/a/../b'],
    ['/nul\0tail'],
    ['/c\u0001'],
    ['/c\u001f'],
    ['/c\u007f'],
    ['/c\u009f'],
    ['/c\ud800'],
    ['/smile-\u{1F600}'],
    ['/c\ue000'],
    ['/c\ufff0'],
    ['/c\uffff'],
    [undefined],
    [Symbol('q')],
    [{ toString: (): string => '/a' }],
  ])('rejects %o', (path) => {
    expect(() => checkPath(path)).toThrow(BadOptionError);
  });
});

describe('checkData()', () => {
  test('accepts text, bytes and undefined', () => {
    expect(checkData('é')).toEqual(Buffer.from('é'));
    expect(checkData(new Uint8Array([1, 0, 255]).subarray(1))).toEqual(Buffer.from([0, 255]));
    expect(checkData(undefined)).toHaveLength(0);
    expect(checkData(new Uint8Array())).toHaveLength(0);
  });

  test.each([[null], [5], [Symbol('d')], [{ a: 1 }], [new Uint16Array([1])], [new ArrayBuffer(4)]])(
    'rejects %o',
    (data) => {
      expect(() => checkData(data)).toThrow(BadOptionError);
    },
  );

  test('rejects an array whose buffer was transferred', () => {
    const data = new Uint8Array(8);
    structuredClone(data.buffer, { transfer: [data.buffer] });
    expect(() => checkData(data)).toThrow(/transferred/);
  });

  test('rejects data that does not fit into one request with its path', () => {
    const path = '/é';
    checkRequest('', path, Buffer.alloc(MAX_REQUEST - 3));
    expect(() => checkRequest('', path, Buffer.alloc(MAX_REQUEST - 2))).toThrow(
      /^data must be at most/,
    );
    expect(() => checkRequest('', `/${'a'.repeat(MAX_REQUEST)}`)).toThrow(/^path must be/);
  });
});

test.each([[-1], [0], [2 ** 31 - 1]])('version %s is accepted', (version) => {
  expect(checkVersion(version)).toBe(version);
});

test.each([[-2], [1.5], [2 ** 31], [Number.NaN], ['1'], [1n], [Symbol('v')], [undefined], [null]])(
  'version %o is rejected',
  (version) => expect(() => checkVersion(version)).toThrow(BadOptionError),
);

test('modes have the numbers of the protocol, and persistent is the default', () => {
  const modes = ['persistent', 'ephemeral', 'persistent-sequential', 'ephemeral-sequential'];
  expect([undefined, ...modes, 'container'].map((mode) => checkMode(mode))).toEqual([
    0, 0, 1, 2, 3, 4,
  ]);
});

test.each([['PERSISTENT'], [1], [1n], [Symbol('m')], [{ valueOf: (): number => 1 }]])(
  'mode %o is rejected',
  (mode) => expect(() => checkMode(mode)).toThrow(BadOptionError),
);

test('ACL entries of every scheme are accepted', () => {
  const acl = [
    { scheme: 'world', id: 'anyone', permissions: 'r' },
    { scheme: 'auth', id: '', permissions: 'cdrwa' },
    { scheme: 'digest', id: 'super:D/InIHSb7yEEbrWz8b9l71RjZJU=', permissions: 'rw' },
    { scheme: 'sasl', id: 'shop', permissions: 'cdrwa' },
    { scheme: 'sasl', id: 'zk-admin/host@EXAMPLE.COM', permissions: 'r' },
    { scheme: 'ip', id: '10.0.0.0/8', permissions: 'r' },
    { scheme: 'ip', id: '::1', permissions: 'r' },
  ];
  expect(checkAcl(acl)).toEqual(acl);
});
