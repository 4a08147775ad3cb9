import { types } from 'node:util';
import { BadOptionError } from '../client/errors.js';
import { CoordinationInterceptor } from './coordination.interceptor.js';
import type { HoldingOptions, KeyFromContext } from './decorator-types.js';
import { injectService } from './injected-service.js';
import type { LeaseKind } from './lease-requirement.js';
import { type KeySource, LeaseSpec } from './lease-requirement.js';
import type { MethodSpec } from './requirement.js';
import { addSpec, copyMetadata, MisuseError, specsOf } from './requirement.js';
import { wrapMethod } from './method-wrapper.js';

/** What Nest's `UseInterceptors` leaves on a method, outermost first. */
const INTERCEPTORS = '__interceptors__';

export type Decorator = (
  target: object,
  method: string | symbol,
  descriptor: PropertyDescriptor,
) => void;

/** A decorator for methods that run only with what `specify` says they need. */
export function decorateMethod(
  decorator: string,
  service: string,
  specify: (target: object, method: string | symbol) => MethodSpec,
): Decorator {
  return (target, method, descriptor) => {
    if (typeof target === 'function') {
      throw new MisuseError(
        `${decorator} cannot stand on the static method ${target.name}.${String(method)}: a ${service} is injected into instances alone. Make it a method of a provider`,
      );
    }
    const original: unknown = descriptor?.value;
    if (!isMethod(original)) {
      throw new MisuseError(
        `${decorator} on ${target.constructor.name}.${String(method)} stands on something that is not a method`,
      );
    }
    if (types.isGeneratorFunction(original)) {
      throw new MisuseError(
        `${decorator} on ${target.constructor.name}.${String(method)} stands on a generator, which would run without it: return an Observable instead`,
      );
    }
    const spec = specify(target, method);
    const property = injectService(target, spec);
    const wrapper = wrapMethod(original, spec, property);
    copyMetadata(original, wrapper);
    if (specsOf(wrapper).length === 0) interceptOutermost(wrapper);
    addSpec(wrapper, spec);
    // In place, not returned: applyDecorators drops what a decorator returns.
    descriptor.value = wrapper;
  };
}

/**
 * The compiler sees it too, but not every build has one.
 *
 * @throws MisuseError for a decorator that was not called: it was given the method in place of its options,
 *   and what it returns would be dropped
 */
export function checkCalled(decorator: string, args: readonly unknown[]): void {
  if (args.length <= 2) return;
  const [target, method] = args as [object, string | symbol];
  throw new MisuseError(
    `${decorator} on ${target.constructor.name}.${String(method)} does nothing uncalled: write ${decorator}(…)`,
  );
}

/**
 * `UseInterceptors` adds to the end, the innermost, and those below have added theirs by now: the
 * transaction of one of them would be committed after the lock is given back.
 */
function interceptOutermost(method: object): void {
  const others = (Reflect.getMetadata(INTERCEPTORS, method) as unknown[] | undefined) ?? [];
  Reflect.defineMetadata(INTERCEPTORS, [CoordinationInterceptor, ...others], method);
}

export function isMethod(value: unknown): value is (...args: never[]) => never {
  return typeof value === 'function';
}

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
