import { Inject } from '@nestjs/common';
import type { LockService } from '../services/lock.service.js';
import { DEFAULT_CONNECTION, getLockServiceToken } from '../zk.tokens.js';
import { MisuseError } from './errors.js';
import type { LockSpec } from './lock-spec.js';

const properties = new Map<string, symbol>();

/**
 * Has Nest inject a connection's LockService into the instances of a class. Nest prints the
 * description of the symbol where it has none to inject, so it says what to do.
 */
export function injectLockService(target: object, connection: string): symbol {
  const property = propertyOf(connection);
  Inject(getLockServiceToken(connection))(target, property);
  if (!(property in target)) {
    Object.defineProperty(target, property, {
      configurable: true,
      get: () => undefined,
      // Nest assigns; an enumerable property would show up in logs, copies and comparisons.
      set(this: object, service: LockService) {
        Object.defineProperty(this, property, { value: service, configurable: true });
      },
    });
  }
  return property;
}

export function injectedService(self: unknown, property: symbol, spec: LockSpec): LockService {
  const service = (self as Record<symbol, LockService | undefined> | undefined)?.[property];
  if (service) return service;
  throw new MisuseError(
    `${spec.label} has a @DistributedLock, but was called on an object that Nest did not make, so no LockService was injected into it and the method was not run. Let Nest make the instance (list the class itself in providers or controllers, or use useClass) instead of new, useValue or useFactory`,
  );
}

function propertyOf(connection: string): symbol {
  let property = properties.get(connection);
  if (!property) {
    const options =
      connection === DEFAULT_CONNECTION ? '' : `, name: ${JSON.stringify(connection)}`;
    property = Symbol(
      `LockService for @DistributedLock: add ZkModule.forRoot({ connectString${options} }) to the imports of your root module`,
    );
    properties.set(connection, property);
  }
  return property;
}
