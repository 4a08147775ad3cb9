import { MAX_TIMER } from './sleep.js';

/** Returns what is expected instead of the value of an option; undefined if the value is right. */
export type Rule = (value: unknown) => string | undefined;

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
