import { types } from 'node:util';
import { BadOptionError } from '../client/errors.js';
import { isRecord } from '../client/validation.js';
import { CoordinationInterceptor } from './coordination.interceptor.js';
import type { KeyFromContext, LeaseDecoratorOptions } from './decorator-types.js';
import { injectService } from './injected-service.js';
import { type KeySource, type LeaseKind, LeaseRequirement } from './lease-requirement.js';
import { wrapMethod } from './method-wrapper.js';
import {
  addRequirement,
  copyMetadata,
  expectRequirement,
  MisuseError,
  type Requirement,
  requirementsOf,
} from './requirement.js';

/** The metadata of Nest's `UseInterceptors` on a method, outermost first. */
const INTERCEPTORS = '__interceptors__';

/** Returns a decorator for methods that run only while a requirement is met. */
export function decorateMethod(
  decorator: string,
  service: string,
  createRequirement: (target: object, method: string | symbol) => Requirement,
): MethodDecorator {
  return (target, method, descriptor) => {
    checkLegacyMethod(decorator, target, method);
    if (typeof target === 'function') {
      throw new MisuseError(
        `${decorator} does not work on the static method ${target.name}.${String(method)}: Nest injects a ${service} only into instances. Make it a method of a provider`,
      );
    }
    const label = `${decorator} on ${target.constructor.name}.${String(method)}`;
    const original: unknown = descriptor?.value;
    if (!isMethod(original)) throw new MisuseError(`${label} is not on a method`);
    if (types.isGeneratorFunction(original)) {
      throw new MisuseError(
        `${label} is on a generator, which would run after the release: return an Observable instead`,
      );
    }
    const requirement = createRequirement(target, method);
    const property = injectService(target, requirement);
    const wrapper = wrapMethod(original, requirement, property);
    copyMetadata(original, wrapper);
    if (requirementsOf(wrapper).length === 0) interceptOutermost(wrapper);
    addRequirement(wrapper, requirement);
    expectRequirement(target, method, requirement);
    // Assigned, not returned: Nest's applyDecorators ignores the result of a decorator.
    descriptor.value = wrapper as typeof descriptor.value;
  };
}

/** Returns a decorator for methods that run only while they hold a lease of `kind`. */
export function leaseDecorator(
  kind: LeaseKind,
  args: readonly [key: unknown, options?: LeaseDecoratorOptions],
): MethodDecorator {
  const { decorator, service } = kind;
  const [key, options = {}] = args;
  const parameters = isKeyFromContext(key) ? ['{ keyFromContext, … }'] : ['key', '{ … }'];
  checkArguments(decorator, args, parameters);
  return decorateMethod(decorator, service, (target, method) => {
    const found = keySourceOf(key, options);
    if (!found) {
      throw new BadOptionError(
        `key of ${decorator} on ${target.constructor.name}.${String(method)}`,
        key,
        'a string, a function of the arguments, or { keyFromContext: (context) => key }',
      );
    }
    return new LeaseRequirement(kind, target, method, ...found);
  });
}

/**
 * Rejects surplus arguments of a decorator, which would be ignored, and a decorator without parentheses: it receives the
 * method instead of its options, and its result would be ignored. The types reject both too, but not every build checks
 * them.
 *
 * @param parameters as they are written in the source, for the error
 */
export function checkArguments(
  decorator: string,
  args: ArrayLike<unknown>,
  parameters: readonly string[],
): void {
  const all = Array.from(args);
  const { length } = parameters;
  if (all.slice(length).every((arg) => arg === undefined)) return;
  const [target, method, descriptor] = all as [object, string | symbol, unknown];
  throw new MisuseError(
    isRecord(descriptor) && 'configurable' in descriptor
      ? `${decorator} on ${target.constructor.name}.${String(method)} has no effect without parentheses: write ${decorator}(…)`
      : `${decorator} takes at most ${length} argument${length === 1 ? '' : 's'}, but has ${all.length}: write ${decorator}(${parameters.join(', ')})`,
  );
}

/** Rejects a decorator on a class, and the standard decorators of ECMAScript, which cannot inject a service. */
export function checkLegacyMethod(decorator: string, target: object, method: unknown): void {
  if (typeof method === 'string' || typeof method === 'symbol') return;
  const { name } = target as { name?: unknown };
  throw new MisuseError(
    method === undefined
      ? `${decorator} is on the class ${String(name)}: write it on each method of the class that needs it`
      : `${decorator} is on ${String(name)} as a standard decorator: set experimentalDecorators and emitDecoratorMetadata in the tsconfig.json that the build uses, as Nest needs`,
  );
}

export function isMethod(value: unknown): value is (...args: never[]) => never {
  return typeof value === 'function';
}

/**
 * Makes our interceptor the outermost. `UseInterceptors` would add it as the innermost: a transaction of
 * another interceptor would then commit after the lock is released.
 */
function interceptOutermost(method: object): void {
  const others = (Reflect.getMetadata(INTERCEPTORS, method) as unknown[] | undefined) ?? [];
  Reflect.defineMetadata(INTERCEPTORS, [CoordinationInterceptor, ...others], method);
}

function isKeyFromContext(key: unknown): key is KeyFromContext & LeaseDecoratorOptions {
  return isRecord(key) && 'keyFromContext' in key;
}

function keySourceOf(
  key: unknown,
  options: LeaseDecoratorOptions,
): [KeySource, LeaseDecoratorOptions] | undefined {
  if (typeof key === 'string') return [{ from: 'name', key }, options];
  if (Array.isArray(key)) return [{ from: 'name', key: [...key] }, options];
  if (isMethod(key)) return [{ from: 'arguments', key }, options];
  if (isKeyFromContext(key)) {
    const { keyFromContext, ...rest } = key;
    if (isMethod(keyFromContext)) return [{ from: 'context', key: keyFromContext }, rest];
  }
  return undefined;
}
