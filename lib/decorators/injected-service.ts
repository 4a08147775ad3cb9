import { Inject } from '@nestjs/common';
import { DEFAULT_CONNECTION } from '../zk.tokens.js';
import { MisuseError } from './requirement.js';
import type { MethodSpec } from './requirement.js';

/** What a decorator has injected. */
type Injected = Pick<MethodSpec, 'decorator' | 'service' | 'serviceToken' | 'connection'>;

const properties = new Map<string, symbol>();

/**
 * Has Nest inject a decorator's service into the instances of a class. Nest prints the
 * description of the symbol where it has none to inject, so it says what to do.
 */
export function injectService(target: object, injected: Injected): symbol {
  const property = propertyOf(injected);
  Inject(injected.serviceToken)(target, property);
  if (!(property in target)) {
    Object.defineProperty(target, property, {
      configurable: true,
      get: () => undefined,
      // Nest assigns, Nest 11 twice; an enumerable property would show up in logs, copies and comparisons.
      set(this: object, service: unknown) {
        Object.defineProperty(this, property, {
          value: service,
          configurable: true,
          writable: true,
        });
      },
    });
  }
  return property;
}

export function injectedService(self: unknown, property: symbol, spec: MethodSpec): unknown {
  const service = (self as Record<symbol, unknown> | undefined)?.[property];
  if (service) return service;
  const { decorator, service: missing } = spec;
  throw new MisuseError(
    `${spec.label} has a ${decorator}, but was called on an object that Nest did not make, so no ${missing} was injected into it and the method was not run. Let Nest make the instance (list the class itself in providers or controllers, or use useClass) instead of new, useValue or useFactory`,
  );
}

function propertyOf({ decorator, service, connection }: Injected): symbol {
  const id = `${decorator}:${connection}`;
  let property = properties.get(id);
  if (!property) {
    const options =
      connection === DEFAULT_CONNECTION ? '' : `, name: ${JSON.stringify(connection)}`;
    property = Symbol(
      `${service} for ${decorator}: add ZkModule.forRoot({ connectString${options} }) to the imports of your root module`,
    );
    properties.set(id, property);
  }
  return property;
}
