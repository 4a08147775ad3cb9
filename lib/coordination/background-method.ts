import 'reflect-metadata';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { BadOptionError, checkOptions, checkRecord, type Rules } from '../client/index.js';
import { checkHasInstance, discoverMethods } from '../decorators/coordination.explorer.js';
import { checkLegacyMethod, isMethod } from '../decorators/decorate-method.js';
import type { MethodDecoratorFor } from '../decorators/decorator-types.js';
import { injectService } from '../decorators/injected-service.js';
import { MisuseError } from '../decorators/requirement.js';
import { connectionName, DEFAULT_CONNECTION } from '../services/tokens.js';
import { type CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
import type { PartitionService } from './partition.service.js';

const METADATA = 'nestjs-zookeeper:background-method';

interface Services {
  readonly coordination: CoordinationService;
  readonly partitions: PartitionService;
}

type Callback = (...args: never[]) => unknown;

/** Starts a recipe that calls the decorated method. */
type StartRecipe<C extends Callback> = (services: Services, call: C) => void;

interface DecoratorInfo {
  /** As it is written in the source, for errors. */
  readonly decorator: string;
  /** The time of a call, for errors. */
  readonly calledWhen: string;
}

interface BackgroundMethod extends DecoratorInfo {
  /** Decorator, class and method, for errors. */
  readonly label: string;
  readonly connection: string;
  readonly start: StartRecipe<Callback>;
}

/**
 * Returns a decorator for methods that a recipe calls from the start of the application until its shutdown.
 *
 * @param prepare checks the arguments of the decorator for the method that the label names
 */
export function backgroundMethod<C extends Callback, O extends { connection?: string | undefined }>(
  info: DecoratorInfo,
  options: O,
  rules: Rules<O>,
  prepare: (label: string, options: Omit<O, 'connection'>) => StartRecipe<C>,
): MethodDecoratorFor<C> {
  // Without its call, a decorator gets the class and the name of the method as its arguments.
  checkRecord(options, `options of ${info.decorator}`);
  const decorator: MethodDecorator = (target, method, descriptor) => {
    checkLegacyMethod(info.decorator, target, method);
    const isStatic = typeof target === 'function';
    const owner = isStatic ? target.name : target.constructor.name;
    const label = `${info.decorator} on ${owner}.${String(method)}`;
    const fn: unknown = descriptor?.value;
    if (isStatic || !isMethod(fn)) throw new MisuseError(`${label} is not on an instance method`);
    const check = () => checkOptions(options, rules, `options of ${label}`);
    const { connection: given, ...rest } = withLabel(label, check);
    const start = withLabel(label, () => prepare(label, rest)) as StartRecipe<Callback>;
    const connection = connectionName(given, `connection of ${label}`);
    // The method does not use the service; the injection makes the start fail without a CoordinationModule.
    injectService(target, {
      decorator: info.decorator,
      service: 'CoordinationService',
      serviceToken: getCoordinationServiceToken(connection),
      connection,
      module: moduleOf(connection),
    });
    const added: BackgroundMethod = { ...info, label, connection, start };
    Reflect.defineMetadata(METADATA, [...backgroundMethodsOf(fn), added], fn);
  };
  return decorator as MethodDecoratorFor<C>;
}

function moduleOf(connection: string): string {
  const options =
    connection === DEFAULT_CONNECTION ? '' : `{ connection: ${JSON.stringify(connection)} }`;
  return `CoordinationModule.forRoot(${options})`;
}

/** Adds the label to the message of a BadOptionError. */
function withLabel<T>(label: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof BadOptionError) || error.message.includes(label)) throw error;
    const { option, value } = error;
    throw new BadOptionError(option, value, { message: `${label}: ${error.message}` });
  }
}

function backgroundMethodsOf(method: object): readonly BackgroundMethod[] {
  return (Reflect.getMetadata(METADATA, method) as BackgroundMethod[] | undefined) ?? [];
}

/**
 * Starts the recipes of the decorated methods of an application.
 *
 * @throws MisuseError if a method has no instance that could be called
 */
export function startBackgroundMethods(
  services: Services,
  connection: string | undefined,
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): void {
  const started = new Map<unknown, Set<BackgroundMethod>>();
  for (const discovered of discoverMethods(discovery, scanner)) {
    const { host, name, method } = discovered;
    for (const each of backgroundMethodsOf(method)) {
      if (each.connection !== connectionName(connection)) continue;
      checkHasInstance(discovered, each.decorator, each.calledWhen);
      const { instance } = host as { instance: Record<string, Callback> };
      // One instance may be the value of several providers.
      const known = started.get(instance) ?? new Set();
      if (known.has(each)) continue;
      started.set(instance, known.add(each));
      const call: Callback = (...args) => instance[name]!(...args);
      withLabel(each.label, () => each.start(services, call));
    }
  }
}
