import { BadOptionError } from '../client/errors.js';
import { decorateMethod, type Decorator, isMethod } from './decorate-method.js';
import type { HoldingOptions, KeyFromContext } from './decorator-types.js';
import type { LeaseKind } from './lease-kind.js';
import { type KeySource, LeaseSpec } from './lease-spec.js';

/** A decorator that holds what a service of `kind` gives while its method runs. */
export function leaseDecorator(
  kind: LeaseKind,
  key: unknown,
  keyOptions: HoldingOptions = {},
): Decorator {
  const { decorator, service } = kind;
  return decorateMethod(decorator, service, (target, method) => {
    const { source, options } = split(key, keyOptions, () => {
      const what = `key of ${decorator} on ${target.constructor.name}.${String(method)}`;
      const expected =
        'a string, a function of the arguments, or { keyFromContext: (context) => key }';
      return new BadOptionError(what, key, expected);
    });
    return new LeaseSpec(kind, target, method, source, options);
  });
}

function split(
  key: unknown,
  options: HoldingOptions,
  refusal: () => BadOptionError,
): { source: KeySource; options: HoldingOptions } {
  if (typeof key === 'string') return { source: { from: 'name', key }, options };
  if (Array.isArray(key)) return { source: { from: 'name', key: [...key] }, options };
  if (isMethod(key)) return { source: { from: 'arguments', key }, options };
  if (typeof key === 'object' && key !== null && 'keyFromContext' in key) {
    const { keyFromContext, ...rest } = key as KeyFromContext & HoldingOptions;
    if (isMethod(keyFromContext)) {
      return { source: { from: 'context', key: keyFromContext }, options: rest };
    }
  }
  throw refusal();
}
