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

/** Of what is there: a factory has a prototype of its own, which is not that of what it made. */
function prototypeOf({ metatype, instance }: Host): unknown {
  if (typeof instance === 'object' && instance !== null) return Object.getPrototypeOf(instance);
  return metatype?.prototype;
}
