import type { LoggerService } from '@nestjs/common';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import type { Term } from '../recipes/index.js';
import { type LeaderService, TermGuard } from '../services/leader.service.js';
import { type ElectionListener, listenersOf } from './election-listeners.js';
import { LeadershipRequirement } from './leader-only.decorator.js';
import { LeaseRequirement } from './lease-requirement.js';
import {
  expectedRequirements,
  MisuseError,
  type Requirement,
  REQUIREMENTS,
  requirementsOf,
} from './requirement.js';

type Host = ReturnType<DiscoveryService['getProviders']>[number];

/** A method of a controller or provider of the application. */
interface DiscoveredMethod {
  readonly host: Host;
  readonly prototype: object;
  readonly name: string;
  readonly method: object;
}

type Listening = DiscoveredMethod & { readonly listener: ElectionListener };

/** The metadata that Nest's decorators set on handlers: routes, messages, gateways, GraphQL. */
const HANDLER_METADATA = [
  'method',
  'microservices:pattern',
  'websockets:message_mapping',
  'graphql:resolver_type',
];

/** Finds the decorated methods of an application that concern one connection. */
export class CoordinationExplorer {
  constructor(
    private readonly connection: string,
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
  ) {}

  /**
   * Checks what decorators cannot know when they are applied: whether the method is a handler, the connection's default
   * `wait`, and whether the method was replaced. Some replaced methods are a warning.
   */
  checkRequirements(defaultWait: number, logger: LoggerService): void {
    const warnings = new Set<string>();
    for (const discovered of this.methods()) {
      const { method } = discovered;
      const isHandler = HANDLER_METADATA.some((key) => Reflect.hasMetadata(key, method));
      const warning = this.replacementWarning(discovered, isHandler);
      if (warning) warnings.add(warning);
      for (const requirement of reachedRequirements(discovered)) {
        if (isHandler) requirement.useOnHandler();
        if (requirement instanceof LeaseRequirement && this.concerns(requirement)) {
          requirement.checkDefaultWait(defaultWait);
        }
      }
    }
    for (const warning of warnings) logger.warn(warning);
  }

  /** Returns a warning about a method that was decorated, and whose function lacks the metadata of the decorator. */
  private replacementWarning(discovered: DiscoveredMethod, isHandler: boolean): string | undefined {
    const { lost, overriding, isReached } = replacementOf(discovered);
    const expected = lost.find((requirement) => this.concerns(requirement));
    if (!expected) return;
    const { decorator, label } = expected;
    if (!isReached) {
      const { name } = discovered;
      return `${overriding}.${name} overrides ${label} and runs without its ${decorator}: decorate it too, or call super.${name}()`;
    }
    if (!isHandler || overriding) return;
    return `a decorator above the ${decorator} on ${label} replaces the method and drops its metadata, so Nest answers the errors of ${decorator} with 500: write ${decorator} above that decorator`;
  }

  /**
   * Joins the elections that decorators name, and calls their listeners from now on.
   *
   * @throws MisuseError if a listener has no instance that could be called
   */
  joinElections(leaders: LeaderService, logger: LoggerService): void {
    const elections = new Set<string>();
    const listening: Listening[] = [];
    for (const discovered of this.methods()) {
      for (const requirement of reachedRequirements(discovered)) {
        if (requirement instanceof LeadershipRequirement && this.concerns(requirement)) {
          elections.add(requirement.election);
        }
      }
      for (const listener of listenersOf(discovered.method)) {
        if (!this.concerns(listener)) continue;
        const added = { ...discovered, listener };
        checkHasInstance(added, listener.decorator, 'an election is decided');
        if (!listening.some((other) => isSame(other, added))) listening.push(added);
      }
    }
    for (const election of elections) leaders.isLeader(election);
    for (const each of listening) subscribe(each, leaders, logger);
  }

  private concerns({ connection }: { readonly connection: string }): boolean {
    return connection === this.connection;
  }

  private methods(): Generator<DiscoveredMethod> {
    return discoverMethods(this.discovery, this.scanner);
  }
}

/** Returns the requirements that a call of the method meets, also those whose metadata another function lacks. */
function reachedRequirements(discovered: DiscoveredMethod): readonly Requirement[] {
  const { lost, isReached } = replacementOf(discovered);
  const own = requirementsOf(discovered.method);
  return isReached ? [...own, ...lost] : own;
}

interface Replacement {
  /** The requirements of the decorated method that the function lacks, outermost first. */
  readonly lost: readonly Requirement[];
  /** The class that overrides the method; undefined if a decorator has replaced it. */
  readonly overriding: string | undefined;
  /** Whether the function calls the decorated method, as far as its text shows that. */
  readonly isReached: boolean;
}

/** Returns how a method was replaced. Its function is often the decorated one, and then nothing is lost. */
function replacementOf({ prototype, name, method }: DiscoveredMethod): Replacement {
  const own = requirementsOf(method);
  const lost = expectedRequirements(prototype, name).filter((each) => !own.includes(each));
  let owner = prototype;
  while (!Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
  if (Reflect.hasOwnMetadata(REQUIREMENTS, owner, name)) {
    return { lost, overriding: undefined, isReached: true };
  }
  const isReached = /\bsuper\b/.test(String(method));
  return { lost, overriding: owner.constructor.name, isReached };
}

/** Finds the methods of the controllers and providers of an application. */
export function* discoverMethods(
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): Generator<DiscoveredMethod> {
  for (const host of [...discovery.getControllers(), ...discovery.getProviders()]) {
    const prototype = prototypeOf(host);
    if (typeof prototype !== 'object' || prototype === null) continue;
    for (const name of scanner.getAllMethodNames(prototype)) {
      const method = (prototype as Record<string, unknown>)[name];
      if (typeof method === 'function') yield { host, prototype, name, method };
    }
  }
}

/** The prototype of the instance: a factory provider's metatype is the factory, not the class of its result. */
function prototypeOf({ metatype, instance }: Host): unknown {
  if (typeof instance === 'object' && instance !== null) return Object.getPrototypeOf(instance);
  return metatype?.prototype;
}

/**
 * @param when the time of a call, for the error
 * @throws MisuseError if a method has no instance that could be called
 */
export function checkHasInstance(
  { host, name }: DiscoveredMethod,
  decorator: string,
  when: string,
): void {
  if (!host.isTransient && host.isDependencyTreeStatic()) return;
  throw new MisuseError(
    `${decorator} on ${host.name}.${name}: its provider is created anew for each request or consumer, so there is no instance to call when ${when}. Give the provider the default scope`,
  );
}

function isSame(one: Listening, other: Listening): boolean {
  return (
    one.host.instance === other.host.instance &&
    one.name === other.name &&
    one.listener === other.listener
  );
}

function subscribe(listening: Listening, leaders: LeaderService, logger: LoggerService): void {
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
  let current: Term | undefined;
  leaders.changes(election).subscribe(({ term: next }) => {
    const previous = current;
    current = next;
    const term = decorator === '@OnElected' ? next : next ? undefined : previous;
    if (term) void new TermGuard(term).run(() => call(term));
  });
}
