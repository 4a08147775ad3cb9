import fc from 'fast-check';
import type { ZkClient } from 'nestjs-zookeeper';

// Random arguments for calls of the public API.

const throwing = {
  toString(): string {
    throw new Error('toString');
  },
  valueOf(): number {
    throw new Error('valueOf');
  },
};
export const junk = fc.oneof(
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
  fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    '/',
    'x',
    '/x/',
    '/../x',
    '/nul\0',
    '/\u{1f600}',
    Number.NaN,
    -1,
    -0,
    0.5,
    2 ** 31,
    Number.MAX_VALUE,
    Infinity,
    -Infinity,
    1n,
    Symbol('junk'),
    throwing,
    new Proxy({}, {}),
    Object.create(null),
    () => undefined,
    async () => undefined,
    new Uint16Array(2),
    new AbortController().signal,
    AbortSignal.abort(),
    'x'.repeat(1_100_000),
  ),
);

/** A valid value or a value of any kind. */
export const maybe = (...right: unknown[]) =>
  fc.oneof({ arbitrary: fc.constantFrom(...right), weight: 3 }, { arbitrary: junk, weight: 2 });
export const optional = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.oneof(
    { arbitrary: fc.record(fields, { requiredKeys: [] }), weight: 4 },
    { arbitrary: junk, weight: 1 },
  );

/** A path that only the fuzz test uses. Its contents are deleted after the test. */
export const somePath = fc.oneof(
  { arbitrary: fc.constantFrom('a', 'b', 'c').map((name) => ({ below: name })), weight: 3 },
  { arbitrary: junk, weight: 1 },
);
export const waiting = {
  wait: maybe(0, 1, 20, undefined),
  signal: maybe(undefined),
  holdAtLeast: maybe(0, 1),
  holdAtMost: maybe(1, 50, Infinity),
  details: optional({ name: maybe('n'), text: maybe('t'), data: junk }),
};
export const acquiring = optional(waiting);
export const work = maybe(() => 1);

export type Call = (...args: never[]) => unknown;
export type Entry = readonly [name: string, call: Call, ...args: fc.Arbitrary<unknown>[]];

export const data = maybe('x', new Uint8Array(2), undefined);
export const version = maybe(-1, 0);
export const acl = maybe([{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }]);
export const watch = optional({ watch: maybe(true, false) });
export const permits = optional({ ...waiting, permits: maybe(2), count: maybe(1, 2), path: junk });
export const key = maybe('k', 'l');
export const candidate = optional({ id: maybe('me'), key: maybe('e'), onError: maybe(() => {}) });

/** The services or clients under test; they exist once the tests run. */
export interface FuzzTarget {
  client: ZkClient;
  /** An arbitrary valid path. */
  root: string;
}

/** Moves a valid path below the root of the fuzz test. */
export function pathBelowRoot({ root }: FuzzTarget, recipe: string, path: unknown): string {
  const below = (path as { below?: string } | null | undefined)?.below;
  return typeof below === 'string' ? `${root}/${recipe}/${below}` : (path as string);
}

/** Returns an entry for each method of an object, with the arguments of the method. */
export const methods = (
  name: string,
  object: (path: unknown) => object | Promise<object>,
  argumentsOf: Record<string, fc.Arbitrary<unknown>[]>,
): Entry[] =>
  Object.entries(argumentsOf).map(([method, args]) => [
    `${name}.${method}`,
    async (path: unknown, ...rest: unknown[]) => {
      const called = (await object(path)) as Record<string, (...args: unknown[]) => unknown>;
      return called[method]!(...rest);
    },
    somePath,
    ...args,
  ]);
