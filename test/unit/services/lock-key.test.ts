import fc from 'fast-check';
import { BadOptionError } from 'nestjs-zookeeper';
import { describe, expect, it } from 'vitest';
import {
  checkKey,
  checkKeys,
  encodeKey,
  lockPath,
  semaphorePath,
} from '../../../lib/services/keys.js';

describe('the znode of a key', () => {
  it('is <namespace>/locks/<key> if the key needs no encoding', () => {
    expect(lockPath('/shop', 'goods:42 (réservé) 商品')).toBe(
      '/shop/locks/goods:42 (réservé) 商品',
    );
    expect(lockPath('', 'stock')).toBe('/locks/stock');
    expect(semaphorePath('/shop', 'a/b')).toBe('/shop/semaphores/a%2Fb');
  });

  it.each([
    // It never leaves its directory.
    ['../../zookeeper/config', '..%2F..%2Fzookeeper%2Fconfig'],
    ['.', '%2E'],
    ['..', '%2E%2E'],
    ['...', '...'],
    ['/', '%2F'],
    // It differs for a key and for its encoded form.
    ['a%2Fb', 'a%252Fb'],
    ['%2E', '%252E'],
    // It contains no character that ZooKeeper rejects.
    ['a\nb\u007f\u0085', 'a%0Ab%7F%C2%85'],
    ['\ue000\uffff', '%EE%80%80%EF%BF%BF'],
    ['🛒', '%F0%9F%9B%92'],
    ['\ud800', '%ED%A0%80'],
  ])('encodes %j as %s', (key, encoded) => {
    expect(encodeKey(key)).toBe(encoded);
  });

  const key = fc
    .string({ unit: 'binary', minLength: 1, maxLength: 40 })
    .filter((k) => !k.includes('\0'));

  it('differs for different keys', () => {
    const awkward = fc.string({
      unit: fc.constantFrom('.', '/', '%', '2', 'E', 'F', 'a', '\u0001', '\ud83d', '\uded2'),
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(fc.oneof(key, awkward), fc.oneof(key, awkward), (one, other) => {
        expect(encodeKey(one) === encodeKey(other)).toBe(one === other);
      }),
      { numRuns: 2_000 },
    );
  });

  it('is one name that ZooKeeper accepts', () => {
    fc.assert(
      fc.property(key, (k) => {
        const name = encodeKey(k);
        // oxlint-disable-next-line no-control-regex
        expect(name).not.toMatch(/[/\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/);
        expect(['', '.', '..']).not.toContain(name);
      }),
    );
  });
});

describe('a key', () => {
  it.each([
    ['', '""'],
    ['a\0b', 'NUL'],
    [undefined, 'undefined'],
    [42, '42'],
    [null, 'null'],
    [['a'], 'array'],
  ])('is rejected if it is %j', (key, said) => {
    expect(() => checkKey(key)).toThrow(BadOptionError);
    expect(() => checkKey(key)).toThrow(said);
  });

  it('may have up to 1,024 characters', () => {
    expect(() => checkKey('x'.repeat(1024))).not.toThrow();
    expect(() => checkKey('x'.repeat(1025))).toThrow(BadOptionError);
  });
});

describe('a list of keys', () => {
  it('must have 1 to 100 keys, and none of them twice', () => {
    const keys = Array.from({ length: 101 }, (_, index) => String(index));
    expect(() => checkKeys([])).toThrow('key must be a list of 1 to 100 keys, but has 0');
    expect(() => checkKeys(keys)).toThrow('key must be a list of 1 to 100 keys, but has 101');
    expect(() => checkKeys(keys.slice(1))).not.toThrow();
    expect(() => checkKeys(['a', 'b', 'a'])).toThrow(/"a" appears twice in the list/);
    expect(() => checkKeys(['a', '%61', 'A'])).not.toThrow();
  });

  it('must contain keys only', () => {
    expect(() => checkKeys(['a', ''])).toThrow(BadOptionError);
    expect(() => checkKeys(['a', ['b']])).toThrow(BadOptionError);
    expect(() => checkKeys('a')).not.toThrow();
    expect(() => checkKeys(undefined)).toThrow(BadOptionError);
  });
});
