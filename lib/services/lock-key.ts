import { BadOptionError } from '../client/errors.js';

/** UTF-16 units. A key is a name; its znode's path travels with every request about the lock. */
const LONGEST_KEY = 1024;

/**
 * What may not stand in a znode's name: the slash, our own escape character, and what ZooKeeper
 * refuses (control characters, surrogates, private use, specials, all beyond the basic plane).
 */
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[%/\u0001-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff\u{10000}-\u{10ffff}]/gu;

export function checkKey(key: unknown, what = 'key'): asserts key is string {
  const fits =
    typeof key === 'string' && key !== '' && key.length <= LONGEST_KEY && !key.includes('\0');
  if (!fits) {
    const expected = `a non-empty string of at most ${LONGEST_KEY} characters without NUL`;
    throw new BadOptionError(what, key, expected);
  }
}

/** The znode of a key's lock. No two keys share one, and no key leads out of `<namespace>/locks`. */
export function lockPath(namespace: string, key: string): string {
  return `${namespace}/locks/${encodeKey(key)}`;
}

export function encodeKey(key: string): string {
  if (key === '.' || key === '..') return key.replaceAll('.', '%2E');
  return key.replace(UNSAFE, percentEncode);
}

function percentEncode(character: string): string {
  const code = character.codePointAt(0)!;
  // A surrogate without its other half has no UTF-8; the scheme's bytes still name it, and nothing else.
  const bytes =
    code >= 0xd800 && code <= 0xdfff
      ? [0xed, 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]
      : [...Buffer.from(character)];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}
