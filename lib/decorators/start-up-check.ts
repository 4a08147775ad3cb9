import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { discoveredMethods } from './discovered-methods.js';
import { MisuseError } from './errors.js';
import { LeaseSpec } from './lease-spec.js';
import { specsOf } from './method-metadata.js';
import type { MethodSpec } from './method-spec.js';

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
export function checkMethods(
  connection: string,
  defaultWait: number,
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): void {
  for (const { method } of discoveredMethods(discovery, scanner)) {
    checkMethod(method, connection, defaultWait);
  }
}

function checkMethod(method: object, connection: string, defaultWait: number): void {
  for (const spec of specsOf(method)) {
    if (!spec.skips) continue;
    if (HANDLER_METADATA.some((key) => Reflect.hasMetadata(key, method))) {
      throw skippedHandler(spec);
    }
    if (spec instanceof LeaseSpec && spec.connection === connection) {
      spec.checkDefaultWait(defaultWait);
    }
  }
}

export function skippedHandler({ decorator, label, skips }: MethodSpec): MisuseError {
  return new MisuseError(
    `${decorator} on the handler ${label} has ${skips}, which would answer success with nothing done. Use 'throw', or a function`,
  );
}
