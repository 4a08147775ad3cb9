import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { MisuseError } from './errors.js';
import type { LeaseSpec } from './lease-spec.js';
import { leaseSpecsOf } from './method-metadata.js';

/** What Nest's decorators leave on a method that answers somebody: routes, messages, gateways, GraphQL. */
const HANDLER_METADATA = [
  'method',
  'microservices:pattern',
  'websockets:message_mapping',
  'graphql:resolver_type',
];

/**
 * What a decorator cannot know when it is applied: whether its method will be a handler, and how long
 * the connection lets it wait.
 */
export function checkLockedMethods(
  connection: string,
  defaultWait: number,
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): void {
  for (const { metatype } of [...discovery.getControllers(), ...discovery.getProviders()]) {
    const prototype: unknown = metatype?.prototype;
    if (typeof prototype !== 'object' || prototype === null) continue;
    for (const name of scanner.getAllMethodNames(prototype)) {
      checkMethod((prototype as Record<string, unknown>)[name], connection, defaultWait);
    }
  }
}

function checkMethod(method: unknown, connection: string, defaultWait: number): void {
  if (typeof method !== 'function') return;
  for (const spec of leaseSpecsOf(method)) {
    if (spec.onBusy !== 'skip') continue;
    if (HANDLER_METADATA.some((key) => Reflect.hasMetadata(key, method))) {
      throw skippedHandler(spec);
    }
    if (spec.connection === connection) spec.checkSkip(spec.wait ?? defaultWait);
  }
}

export function skippedHandler({ kind, label }: LeaseSpec): MisuseError {
  return new MisuseError(
    `${kind.decorator} on the handler ${label} has onBusy: 'skip', which would answer success with nothing done. Use 'throw', or a function that makes the error to answer with`,
  );
}
