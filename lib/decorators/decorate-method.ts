import { UseInterceptors } from '@nestjs/common';
import { CoordinationInterceptor } from './coordination.interceptor.js';
import { MisuseError } from './errors.js';
import { injectService } from './injected-service.js';
import { addSpec, copyMetadata, specsOf } from './method-metadata.js';
import type { MethodSpec } from './method-spec.js';
import { wrapMethod } from './method-wrapper.js';

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
    const spec = specify(target, method);
    const property = injectService(target, spec);
    const wrapper = wrapMethod(original, spec, property);
    copyMetadata(original, wrapper);
    if (specsOf(wrapper).length === 0) {
      UseInterceptors(CoordinationInterceptor)(target, method, { value: wrapper });
    }
    addSpec(wrapper, spec);
    // In place, not returned: applyDecorators drops what a decorator returns.
    descriptor.value = wrapper;
  };
}

export function isMethod(value: unknown): value is (...args: never[]) => never {
  return typeof value === 'function';
}
