import { isIP } from 'node:net';
import { isUint8Array } from 'node:util/types';
import { BadOptionError, textOf } from './errors.js';
import { MAX_TIMER } from './sleep.js';
import type { Acl, Auth, CreateMode } from './types.js';

/** Returns what is expected instead of the value of an option; undefined if the value is right. */
type Rule = (value: unknown) => string | undefined;

/** The rules of an object of options, by their names. Every option may be left out, or be undefined. */
export type Rules<T> = { readonly [Name in keyof T]-?: Rule };

export function rule(expected: string, isRight: (value: never) => boolean): Rule {
  return (value) => (isRight(value as never) ? undefined : expected);
}

/** For a value that is checked where it is used. */
export const UNCHECKED: Rule = () => undefined;

export function uncheckedRules<Name extends string>(...names: readonly Name[]) {
  return Object.fromEntries(names.map((name) => [name, UNCHECKED])) as Record<Name, Rule>;
}

export const BOOLEAN = rule('true or false', (value) => typeof value === 'boolean');
export const STRING = rule('a string', (value) => typeof value === 'string');
export const NON_EMPTY_STRING = rule(
  'a non-empty string',
  (value) => typeof value === 'string' && value !== '',
);
export const FUNCTION = rule('a function', (value) => typeof value === 'function');
export const ABORT_SIGNAL = rule(
  'an AbortSignal',
  (value: unknown) => value instanceof AbortSignal,
);

export function oneOf(...values: readonly string[]): Rule {
  const quoted = values.map((value) => `'${value}'`);
  const expected = `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
  return rule(expected, (value: string) => values.includes(value));
}

export function wholeNumber(min: number): Rule {
  return rule(
    `a whole number of ${min} or more`,
    (value: number) => Number.isSafeInteger(value) && value >= min,
  );
}

/** Milliseconds that a timer can have. */
export function milliseconds(min = 1): Rule {
  return rule(
    `a number of milliseconds from ${min} to ${MAX_TIMER}`,
    (value: number) => Number.isFinite(value) && value >= min && value <= MAX_TIMER,
  );
}

/** Characters that ZooKeeper refuses in a path: control characters, surrogates, private use, specials. */
const FORBIDDEN_CHARACTER = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/;

/** The name of a znode, the last part of its path. ClickHouse Keeper allows all other characters. */
export const NODE_NAME = /^(?!\.\.?$)[^/]+$/;

const DOT_PARTS = /\/\.\.?(?:\/|$)/;

/** The absolute path of a znode. */
export const ZNODE_PATH: Rule = (path) => {
  if (typeof path !== 'string') return 'an absolute znode path';
  if (!path.startsWith('/')) return "an absolute znode path, starting with '/'";
  if (path === '/') return undefined;
  if (path.endsWith('/')) return 'a znode path without a slash at its end';
  if (FORBIDDEN_CHARACTER.test(path)) {
    return 'a znode path of characters that ZooKeeper allows (no control, private use or supplementary ones)';
  }
  if (path.includes('//')) return 'a znode path without empty parts';
  return DOT_PARTS.test(path) ? "a znode path without '.' and '..' parts" : undefined;
};

/** The path of a recipe, which must not be the root. */
export const BELOW_ROOT: Rule = (path) =>
  path === '/' ? 'a znode below the root' : ZNODE_PATH(path);

// These checks also protect the native client: it aborts the process on a Symbol or BigInt in place of a
// number, cuts a path at a NUL, sends undefined as text, and drops the connection if a request is too large.

/**
 * How many bytes the path and data of one request may have together. The default of ZooKeeper's
 * `jute.maxbuffer` is 1,048,575 bytes for a whole packet; 1 KiB is reserved for its other fields.
 */
export const MAX_REQUEST = 1_048_575 - 1024;

const INT32_MAX = 0x7fff_ffff;

/** Checks the path of a recipe, which must not be the root. */
export function checkBelowRoot(path: unknown, option = 'path'): void {
  checkValue(option, path, BELOW_ROOT);
}

export function checkPath(path: unknown, option = 'path'): string {
  checkValue(option, path, ZNODE_PATH);
  return path as string;
}

export function checkData(data: unknown, option = 'data'): Buffer {
  if (data === undefined) return Buffer.alloc(0);
  if (typeof data === 'string') return Buffer.from(data);
  if (Buffer.isBuffer(data) && data.length > 0) return data;
  if (!isUint8Array(data)) throw new BadOptionError(option, data, 'a string or a Uint8Array');
  if (data.byteLength === 0 && isDetached(data)) {
    throw new BadOptionError(option, data, 'a Uint8Array whose memory was not transferred away');
  }
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

/**
 * Checks the path of a request, and its size together with the data. Returns the path below the chroot.
 *
 * @param chroot empty, or an absolute path
 * @param moreBytes the bytes of the rest of the request, such as an ACL
 */
export function checkRequest(chroot: string, path: unknown, data?: Buffer, moreBytes = 0): string {
  checkValue('path', path, ZNODE_PATH);
  const full = withChroot(chroot, path as string);
  const dataBytes = (data?.length ?? 0) + moreBytes;
  // UTF-8 has at most three bytes per UTF-16 code unit.
  if (full.length * 3 + dataBytes <= MAX_REQUEST) return full;
  const pathBytes = Buffer.byteLength(full);
  const bytes = pathBytes + dataBytes;
  if (bytes <= MAX_REQUEST) return full;
  const expected = `at most ${MAX_REQUEST} bytes together with the rest of its request`;
  throw new BadOptionError(dataBytes > pathBytes ? 'data' : 'path', bytes, expected);
}

/** Returns the path of the parent of a znode. */
export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

/** @param path an absolute path */
export function withChroot(chroot: string, path: string): string {
  return path === '/' && chroot ? chroot : chroot + path;
}

export function checkVersion(version: unknown, option = 'version'): number {
  const isVersion = Number.isInteger(version) && Number(version) >= -1;
  if (isVersion && Number(version) <= INT32_MAX) return version as number;
  const expected = 'a znode version: -1 for any, or an integer from 0 to 2147483647';
  throw new BadOptionError(option, version, expected);
}

const MODES: ReadonlyMap<unknown, number> = new Map<CreateMode, number>([
  ['persistent', 0],
  ['ephemeral', 1],
  ['persistent-sequential', 2],
  ['ephemeral-sequential', 3],
  ['container', 4],
]);

/** Returns ZooKeeper's number for a mode. */
export function checkMode(mode: unknown, option = 'mode'): number {
  const flags = MODES.get(mode === undefined ? 'persistent' : mode);
  if (flags === undefined) {
    throw new BadOptionError(option, mode, `one of ${[...MODES.keys()].join(', ')}`);
  }
  return flags;
}

/** The flags of a znode with a TTL, by those without. */
const TTL_FLAGS: ReadonlyMap<number, number> = new Map([
  [0, 5],
  [2, 6],
]);

/**
 * Checks the mode and the TTL of a znode.
 *
 * @param prefix of the names of the options in errors
 */
export function checkCreateOptions(
  { mode, ttl }: { mode?: unknown; ttl?: unknown },
  prefix = '',
): { flags: number; ttl: number | undefined } {
  const flags = checkMode(mode, `${prefix}mode`);
  if (ttl === undefined) return { flags, ttl };
  const withTtl = TTL_FLAGS.get(flags);
  if (withTtl === undefined) {
    const expected = "left out with a mode other than 'persistent' and 'persistent-sequential'";
    throw new BadOptionError(`${prefix}ttl`, ttl, expected);
  }
  if (!Number.isInteger(ttl) || (ttl as number) < 1 || (ttl as number) > INT32_MAX) {
    const expected = `a whole number of milliseconds from 1 to ${INT32_MAX}`;
    throw new BadOptionError(`${prefix}ttl`, ttl, expected);
  }
  return { flags: withTtl, ttl: ttl as number };
}

/** Returns the text that replaces a value in a message if the value may contain a secret. */
export function withheld(value: unknown): string {
  return `<${typeof value}>`;
}

/** Returns a value for a message. A text with an '@' or `digest:` may have a password. */
export function withoutPassword(value: unknown): unknown {
  return /@|digest:/.test(textOf(value)) ? withheld(value) : value;
}

/** Checks a duration that a timer can have. */
export function checkMilliseconds(value: unknown, option: string, min = 1): number {
  checkValue(option, value, milliseconds(min));
  return value as number;
}

/** Checks a value that may not be left out. */
export function checkValue(option: string, value: unknown, rule: Rule): void {
  const expected = rule(value);
  if (expected !== undefined) throw new BadOptionError(option, value, expected);
}

/**
 * Checks that options are an object with known names only, and the values of those that are given.
 *
 * @param rules the known options
 * @param what names the object in errors
 * @param nameOf returns the name of an option in errors; default: the option itself
 */
export function checkOptions<T>(
  options: T,
  rules: Rules<Record<string, unknown>>,
  what = 'options',
  nameOf?: (option: string) => string,
): T {
  if (!isRecord(options)) {
    const expected = `an object of the options ${Object.keys(rules).join(', ')}`;
    throw new BadOptionError(what, withoutPassword(options), expected);
  }
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(rules, name)) {
      const value = options[name];
      if (value !== undefined) checkValue(nameOf?.(name) ?? name, value, rules[name]!);
      continue;
    }
    const known = Object.keys(rules);
    const meant = nearest(name, known);
    const hint = meant ? `did you mean ${meant}?` : `known options: ${known.join(', ')}`;
    // The value is withheld, because a misspelled option may hold a password.
    throw new BadOptionError(name, withheld(options[name]), {
      message: `unknown option ${name} in ${what}: ${hint}`,
    });
  }
  return options;
}

/** Returns the known name that `name` is probably a misspelling of: at most one edit for four letters, and at least one. */
function nearest(name: string, known: readonly string[]): string | undefined {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z]/g, '');
  const edits = known.map((candidate) => editDistance(plain(name), plain(candidate)));
  const fewest = Math.min(...edits);
  return fewest <= Math.max(1, name.length / 4) ? known[edits.indexOf(fewest)] : undefined;
}

/** Counts the letters to insert, delete, replace, or swap with their neighbour (optimal string alignment). */
function editDistance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= from.length; i++) {
    const row = (rows[i] = [i]);
    for (let j = 1; j <= to.length; j++) {
      const changed = from[i - 1] === to[j - 1] ? 0 : 1;
      const edits = [row[j - 1]! + 1, rows[i - 1]![j]! + 1, rows[i - 1]![j - 1]! + changed];
      const swapped = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      if (swapped) edits.push(rows[i - 2]![j - 2]! + 1);
      row.push(Math.min(...edits));
    }
  }
  return rows[from.length]![to.length]!;
}

export function checkRecord(options: unknown, option = 'options'): void {
  if (!isRecord(options)) throw new BadOptionError(option, options, 'an object of options');
}

export function checkFunction(fn: unknown, option: string): void {
  checkValue(option, fn, FUNCTION);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isDetached(data: Uint8Array): boolean {
  try {
    // On Node 20 only this distinguishes a detached buffer from an empty one.
    new Uint8Array(data.buffer);
    return false;
  } catch {
    return true;
  }
}

const ACL_RULES = uncheckedRules<keyof Acl>('scheme', 'id', 'permissions');
const AUTH_RULES = uncheckedRules<keyof Auth>('scheme', 'user', 'password');

export function checkAcl(acl: unknown): Acl[] {
  if (!Array.isArray(acl) || acl.length === 0) {
    throw new BadOptionError('acl', withheld(acl), 'an array of at least one ACL entry');
  }
  return acl.map((entry: unknown, index) => checkAclEntry(entry, `acl[${index}]`));
}

function checkAclEntry(entry: unknown, option: string): Acl {
  if (!isRecord(entry)) {
    throw new BadOptionError(option, withheld(entry), 'an ACL entry { scheme, id, permissions }');
  }
  checkOptions(entry, ACL_RULES, option);
  const { scheme, id, permissions } = entry;
  const refuse = refusalOf(entry, option);
  if (
    typeof permissions !== 'string' ||
    !/^[rwcda]{1,5}$/.test(permissions) ||
    new Set(permissions).size !== permissions.length
  ) {
    throw refuse('permissions', "some of the letters 'rwcda'");
  }
  const known = IDS.get(scheme);
  if (!known) throw refuse('scheme', "'world', 'auth', 'digest', 'sasl' or 'ip'");
  const isRight = typeof id === 'string' && known[0].test(id) && (scheme !== 'ip' || isNetwork(id));
  if (!isRight) throw refuse('id', known[1]);
  return { scheme: scheme as Acl['scheme'], id, permissions };
}

/** The ids of each scheme, and what an error expects. */
const IDS: ReadonlyMap<unknown, readonly [RegExp, string]> = new Map([
  ['world', [/^anyone$/, "'anyone' for the scheme world"]],
  ['auth', [/^$/, 'empty for the scheme auth']],
  ['digest', [/^[^:\0]+:[A-Za-z0-9+/]{27}=$/, "'user:' and the base64 of sha1('user:password')"]],
  ['sasl', [/^[^\0]+$/, 'the name of a user or a Kerberos principal']],
  ['ip', [/./, 'an IP address, with /bits for a network']],
]);

export function checkAuth(auth: unknown): Auth[] {
  if (!Array.isArray(auth)) {
    throw new BadOptionError('auth', withheld(auth), 'an array of credentials');
  }
  return auth.map((entry: unknown, index) => {
    const at = `auth[${index}]`;
    if (!isRecord(entry)) {
      const expected = "credentials { scheme: 'digest', user, password }";
      throw new BadOptionError(at, withheld(entry), expected);
    }
    checkOptions(entry, AUTH_RULES, at);
    const { scheme, user, password } = entry;
    const refuse = refusalOf(entry, at);
    if (scheme !== 'digest') throw refuse('scheme', "'digest'");
    if (typeof user !== 'string' || !/^[^:\0]+$/.test(user)) {
      throw refuse('user', "a name without ':'");
    }
    if (typeof password !== 'string' || password === '' || password.includes('\0')) {
      throw refuse('password', 'a non-empty string without NUL');
    }
    return { scheme, user, password };
  });
}

/** Each field may hold a password by mistake. */
const refusalOf =
  (entry: Record<string, unknown>, option: string) =>
  (field: string, expected: string): BadOptionError =>
    new BadOptionError(`${option}.${field}`, withheld(entry[field]), expected);

function isNetwork(id: string): boolean {
  const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(id) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(bits ?? 0) <= (version === 4 ? 32 : 128);
}
