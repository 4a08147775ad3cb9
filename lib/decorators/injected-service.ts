import { Inject } from '@nestjs/common';
import { DEFAULT_CONNECTION } from '../services/tokens.js';
import { MisuseError, type Requirement } from './requirement.js';

type Injected = Pick<Requirement, 'decorator' | 'service' | 'serviceToken' | 'connection'> & {
  /** The call that provides the service, for error messages. Default: that of ZkModule. */
  readonly module?: string;
};

/** One symbol for each decorator and connection. */
const properties = new Map<string, symbol>();

/** Makes Nest inject a decorator's service into the instances of a class. Returns the property. */
export function injectService(target: object, injected: Injected): symbol {
  const property = propertyOf(injected);
  Inject(injected.serviceToken)(target, property);
  if (!(property in target)) {
    Object.defineProperty(target, property, {
      configurable: true,
      get: () => undefined,
      // Nest assigns the property, Nest 11 twice. It must not be enumerable: it would appear in logs, copies
      // and comparisons of the instance.
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

/** @throws MisuseError if Nest did not inject the service into `self` */
export function injectedService(
  self: unknown,
  property: symbol,
  requirement: Requirement,
): unknown {
  const service = (self as Record<symbol, unknown> | undefined)?.[property];
  if (service) return service;
  const { label, decorator, service: missing } = requirement;
  if (self === undefined) {
    throw new MisuseError(
      `${label} has a ${decorator} but was called without "this", so it has no injected ${missing}. The method was not run. Call it on the instance, or bind it: a function that was taken from the instance has lost it`,
    );
  }
  throw new MisuseError(
    `${label} has a ${decorator} but was called on an object that Nest did not create, so it has no injected ${missing}. The method was not run. Let Nest create the instance (list the class itself in providers or controllers, or use useClass) instead of new, useValue or useFactory; in a unit test, pass it to inject() of a FakeLocks of nestjs-zookeeper/testing`,
  );
}

function propertyOf({ decorator, service, connection, module }: Injected): symbol {
  const id = `${decorator}:${connection}`;
  let property = properties.get(id);
  if (!property) {
    const options =
      connection === DEFAULT_CONNECTION ? '' : `, name: ${JSON.stringify(connection)}`;
    // Nest prints the description if it cannot inject the service.
    property = Symbol(
      module
        ? `${service} for ${decorator}: add ${module} to the imports of your root module`
        : `${service} for ${decorator}: add ZkModule.forRoot({ connectString${options} }) to the imports of your root module; in a unit test, add the providers of a FakeLocks of nestjs-zookeeper/testing`,
    );
    properties.set(id, property);
  }
  return property;
}
