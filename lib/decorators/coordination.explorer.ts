import type { LoggerService } from '@nestjs/common';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import type { Term } from '../recipes/index.js';
import { type LeaderService, TermHolding } from '../services/leader.service.js';
import { type ElectionListener, listenersOf } from './election-listeners.js';
import { LeaderSpec } from './leader-only.decorator.js';
import { LeaseSpec } from './lease-requirement.js';
import type { MethodSpec } from './requirement.js';
import { MisuseError, specsOf } from './requirement.js';

type Listening = DiscoveredMethod & { readonly listener: ElectionListener };

/** What an application's decorators say of elections on one connection. */
export class Elections {
  private readonly names = new Set<string>();
  private readonly listening: Listening[] = [];

  /** @throws MisuseError where a listener has no instance to be called on */
  constructor(connection: string, discovery: DiscoveryService, scanner: MetadataScanner) {
    for (const found of discoveredMethods(discovery, scanner)) {
      for (const spec of specsOf(found.method)) {
        if (spec instanceof LeaderSpec && spec.connection === connection) {
          this.names.add(spec.election);
        }
      }
      for (const listener of listenersOf(found.method)) {
        if (listener.connection === connection) this.listen({ ...found, listener });
      }
    }
  }

  /** Takes part in all of them, and calls the listeners from now on. */
  join(leaders: LeaderService, logger: LoggerService): void {
    for (const election of this.names) leaders.isLeader(election);
    for (const listening of this.listening) follow(listening, leaders, logger);
  }

  private listen(listening: Listening): void {
    const { host, name, listener } = listening;
    if (host.isTransient || !host.isDependencyTreeStatic()) {
      throw new MisuseError(
        `${listener.decorator} on ${host.name}.${name}: its provider is made anew for each request or consumer, so that there is none to call when an election is decided. Give it the default scope`,
      );
    }
    const again = this.listening.some(
      (other) =>
        other.host.instance === host.instance && other.name === name && other.listener === listener,
    );
    if (!again) this.listening.push(listening);
  }
}

function follow(listening: Listening, leaders: LeaderService, logger: LoggerService): void {
  const { host, name, listener } = listening;
  const { election, decorator } = listener;
  const call = async (term: Term): Promise<void> => {
    try {
      await (host.instance as Record<string, (term: Term) => unknown>)[name]!(term);
    } catch (error) {
      const stack = error instanceof Error ? error.stack : undefined;
      logger.error(`${decorator} ${host.name}.${name} failed: ${String(error)}`, stack);
    }
  };
  let present: Term | undefined;
  leaders.changes(election).subscribe(({ term }) => {
    const past = term ? undefined : present;
    present = term;
    const concerned = decorator === '@OnElected' ? term : past;
    if (concerned) void new TermHolding(concerned).run(() => call(concerned));
  });
}

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
