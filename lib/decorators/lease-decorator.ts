import { UseInterceptors } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import type { HoldingOptions, KeyFromContext } from './decorator-types.js';
import { MisuseError } from './errors.js';
import { injectService } from './injected-service.js';
import type { LeaseKind } from './lease-kind.js';
import { type KeySource, LeaseSpec } from './lease-spec.js';
import { LeaseInterceptor } from './lease.interceptor.js';
import { addLeaseSpec, copyMetadata, leaseSpecsOf } from './method-metadata.js';
import { wrapMethod } from './method-wrapper.js';

type Decorator = (target: object, method: string | symbol, descriptor: PropertyDescriptor) => void;

/** A decorator that holds what a service of `kind` gives while its method runs. */
export function leaseDecorator(
  kind: LeaseKind,
  key: unknown,
  keyOptions: HoldingOptions = {},
): Decorator {
  return (target, method, descriptor) => {
    const { decorator } = kind;
    if (typeof target === 'function') {
      throw new MisuseError(
        `${decorator} cannot stand on the static method ${target.name}.${String(method)}: a ${kind.service} is injected into instances alone. Make it a method of a provider`,
      );
    }
    const original: unknown = descriptor?.value;
    if (!isMethod(original)) {
      throw new MisuseError(
        `${decorator} on ${target.constructor.name}.${String(method)} stands on something that is not a method`,
      );
    }
    const { source, options } = split(key, keyOptions, () => {
      const what = `key of ${decorator} on ${target.constructor.name}.${String(method)}`;
      const expected =
        'a string, a function of the arguments, or { keyFromContext: (context) => key }';
      return new BadOptionError(what, key, expected);
    });
    const spec = new LeaseSpec(kind, target, method, source, options);
    const property = injectService(target, spec);
    const wrapper = wrapMethod(original, spec, property);
    copyMetadata(original, wrapper);
    if (leaseSpecsOf(wrapper).length === 0) {
      UseInterceptors(LeaseInterceptor)(target, method, { value: wrapper });
    }
    addLeaseSpec(wrapper, spec);
    // In place, not returned: applyDecorators drops what a decorator returns.
    descriptor.value = wrapper;
  };
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

function isMethod(value: unknown): value is (...args: never[]) => never {
  return typeof value === 'function';
}
