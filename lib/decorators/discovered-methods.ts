import type { DiscoveryService, MetadataScanner } from '@nestjs/core';

type Host = ReturnType<DiscoveryService['getProviders']>[number];

/** A method of a controller or provider of the application. */
export interface DiscoveredMethod {
  readonly host: Host;
  readonly name: string;
  readonly method: object;
}

/** All methods that decorators may have said something of. */
export function* discoveredMethods(
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): Generator<DiscoveredMethod> {
  for (const host of [...discovery.getControllers(), ...discovery.getProviders()]) {
    const prototype = prototypeOf(host);
    if (typeof prototype !== 'object' || prototype === null) continue;
    for (const name of scanner.getAllMethodNames(prototype)) {
      const method = (prototype as Record<string, unknown>)[name];
      if (typeof method === 'function') yield { host, name, method };
    }
  }
}

/** Of the class; what a factory made has one of its own. */
function prototypeOf({ metatype, instance }: Host): unknown {
  const prototype: unknown = metatype?.prototype;
  if (prototype || typeof instance !== 'object' || instance === null) return prototype;
  return Object.getPrototypeOf(instance);
}
