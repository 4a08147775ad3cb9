import { types } from 'node:util';
import { CoordinationInterceptor } from './coordination.interceptor.js';
import { MisuseError } from './errors.js';
import { injectService } from './injected-service.js';
import { addSpec, copyMetadata, specsOf } from './method-metadata.js';
import type { MethodSpec } from './method-spec.js';
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
