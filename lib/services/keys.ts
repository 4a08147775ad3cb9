import { BadKeyError, BadOptionError } from '../client/errors.js';

/** UTF-16 units. The limit bounds the path that each request about the lock carries. */
const MAX_KEY_LENGTH = 1024;
/** Keys of one call, which may come from a request. Each one costs two requests to the servers. */
const MAX_KEYS = 100;

/**
 * Characters that are percent-encoded in a znode's name: the slash, the percent sign itself, and the
 * characters that ZooKeeper refuses (control characters, surrogates, private use, specials, and all
 * characters outside the basic plane).
 */
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[%/\u0001-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff\u{10000}-\u{10ffff}]/gu;

/**
 * The key of one lock, or up to 100 different keys of several locks that are acquired together. A key is a non-empty string
 * of at most 1,024 characters (UTF-16 code units) without NUL.
 *
 * @publicApi
 */
export type LockKeys = string | readonly string[];

/** Checks a key or a list of keys. A list has 1 to 100 keys, and no key twice. */
export function checkKeys(keys: unknown, what = 'key'): asserts keys is LockKeys {
  if (!Array.isArray(keys)) return checkKey(keys, what);
  if (keys.length === 0 || keys.length > MAX_KEYS) {
    const message = `${what} must be a list of 1 to ${MAX_KEYS} keys, but has ${keys.length}`;
    throw new BadKeyError(what, keys, { message });
  }
  for (const key of keys) checkKey(key, what);
  const duplicate: unknown = keys.find((key, index) => keys.indexOf(key) !== index);
  if (duplicate !== undefined) {
    const message = `${what} ${JSON.stringify(duplicate)} appears twice in the list`;
    throw new BadKeyError(what, duplicate, { message });
  }
}

export function checkKey(key: unknown, what = 'key'): asserts key is string {
  const expected = `a non-empty string of at most ${MAX_KEY_LENGTH} characters without NUL`;
  const isMissing = key === undefined || key === null;
  if (!isMissing && typeof key !== 'string') throw new BadOptionError(what, key, expected);
  const usable = key && key.length <= MAX_KEY_LENGTH && !key.includes('\0');
  if (!usable) throw new BadKeyError(what, key, expected);
}

/** Returns the znode of a key's lock. Different keys have different znodes, all in `<namespace>/locks`. */
export function lockPath(namespace: string, key: string): string {
  return `${namespace}/locks/${encodeKey(key)}`;
}

/** As {@link lockPath}, for semaphores. */
export function semaphorePath(namespace: string, key: string): string {
  return `${namespace}/semaphores/${encodeKey(key)}`;
}

/** As {@link lockPath}, for elections. */
export function electionPath(namespace: string, election: string): string {
  return `${namespace}/elections/${encodeKey(election)}`;
}

/** Returns the path of the latest claimed tick of a job of an election. */
export function ticksPath(namespace: string, election: string, job: string): string {
  return `${namespace}/cron/${encodeKey(election)}/${encodeKey(job)}`;
}

export function encodeKey(key: string): string {
  if (key === '.' || key === '..') return key.replaceAll('.', '%2E');
  return key.replace(UNSAFE, percentEncode);
}

function percentEncode(character: string): string {
  const code = character.codePointAt(0)!;
  // A lone surrogate has no UTF-8 form. The bytes that UTF-8's scheme would give it are unique.
  const bytes =
    code >= 0xd800 && code <= 0xdfff
      ? [0xed, 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]
      : [...Buffer.from(character)];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}
