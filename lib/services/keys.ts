import { BadOptionError } from '../client/errors.js';

/** UTF-16 units. A key is a name; its znode's path travels with every request about the lock. */
const LONGEST_KEY = 1024;

/**
 * What may not stand in a znode's name: the slash, our own escape character, and what ZooKeeper
 * refuses (control characters, surrogates, private use, specials, all beyond the basic plane).
 */
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[%/\u0001-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff\u{10000}-\u{10ffff}]/gu;

/**
 * The key of one lock, or the keys of several that are taken as one.
 *
 * @publicApi
 */
export type LockKeys = string | readonly string[];

/** A list names at least one lock, and none twice: they would wait for each other. */
export function checkKeys(keys: unknown, what = 'key'): asserts keys is LockKeys {
  if (!Array.isArray(keys)) return checkKey(keys, what);
  if (keys.length === 0) throw new BadOptionError(what, keys, 'at least one key');
  for (const key of keys) checkKey(key, what);
  // No two keys share a znode, so that comparing them as they are is enough.
  const twice: unknown = keys.find((key, index) => keys.indexOf(key) !== index);
  if (twice !== undefined) throw new BadOptionError(what, twice, 'in the list once');
}

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

/** The znode of a key's semaphore; likewise. */
export function semaphorePath(namespace: string, key: string): string {
  return `${namespace}/semaphores/${encodeKey(key)}`;
}

/** The znode of an election; likewise. */
export function electionPath(namespace: string, election: string): string {
  return `${namespace}/elections/${encodeKey(election)}`;
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
