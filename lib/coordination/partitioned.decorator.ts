import 'reflect-metadata';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { checkOptions } from '../client/validation.js';
import { checkHasInstance, discoverMethods } from '../decorators/coordination.explorer.js';
import { checkLegacyMethod, isMethod } from '../decorators/decorate-method.js';
import { injectService } from '../decorators/injected-service.js';
import { MisuseError } from '../decorators/requirement.js';
import { checkKey } from '../services/keys.js';
import { connectionName } from '../services/tokens.js';
import { getPartitionServiceToken, type PartitionService } from './partition.service.js';
import type { Partition } from './recipes/partition.js';
import { checkPartitioner, type PartitionerOptions } from './recipes/partitioner-options.js';

const METADATA = 'nestjs-zookeeper:partitioned';

/**
 * The options of {@link Partitioned}.
 *
 * @publicApi
 */
export interface PartitionedOptions extends Omit<PartitionerOptions, 'onError'> {
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
}

const OPTIONS = [
  'partitions',
  'id',
  'rebalanceDelay',
  'stopTimeout',
  'connection',
] satisfies (keyof PartitionedOptions)[];

/** A decorated method. */
interface Work {
  readonly name: string;
  readonly connection: string;
  readonly options: PartitionerOptions;
}

/**
 * Calls the method for each partition that this process owns, from the start of the application until its shutdown. The
 * method must end when `partition.signal` aborts, because the next owner waits for that. Its errors are logged, and it is
 * called again after a pause. See {@link PartitionHandler}.
 *
 * ```ts
 * @Partitioned('orders', { partitions: 64 })
 * async work({ index, signal, fencingToken }: Partition) {
 *   while (!signal.aborted) await this.settleOrders(index, fencingToken, signal);
 * }
 * ```
 *
 * A method of a request-scoped or transient provider is an error at the start of the application.
 *
 * @throws BadOptionError, MisuseError
 * @publicApi
 */
export function Partitioned(name: string, options: PartitionedOptions) {
  return <M extends (partition: Partition) => unknown>(
    target: object,
    method: string | symbol,
    descriptor: TypedPropertyDescriptor<M>,
  ): void => {
    checkLegacyMethod('@Partitioned', target, method);
    const isStatic = typeof target === 'function';
    const owner = isStatic ? target.name : target.constructor.name;
    const label = `@Partitioned on ${owner}.${String(method)}`;
    const fn: unknown = descriptor?.value;
    if (isStatic || !isMethod(fn)) throw new MisuseError(`${label} is not on an instance method`);
    checkKey(name, `name of ${label}`);
    const { connection: given, ...rest } = checkOptions(options, OPTIONS, `options of ${label}`);
    checkPartitioner(rest);
    const connection = connectionName(given, `connection of ${label}`);
    // The method does not use the service; the injection makes the start fail without a CoordinationModule.
    injectService(target, {
      decorator: '@Partitioned',
      service: 'PartitionService',
      serviceToken: getPartitionServiceToken(connection),
      connection,
      module: 'CoordinationModule.forRoot()',
    });
    const work: Work = { name, connection, options: rest };
    Reflect.defineMetadata(METADATA, [...worksOf(fn), work], fn);
  };
}

function worksOf(method: object): readonly Work[] {
  return (Reflect.getMetadata(METADATA, method) as Work[] | undefined) ?? [];
}

/**
 * Joins the groups of the decorated methods of an application.
 *
 * @throws MisuseError if a method has no instance that could be called
 */
export function joinPartitions(
  service: PartitionService,
  connection: string | undefined,
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): void {
  const joined: { instance: unknown; work: Work }[] = [];
  for (const discovered of discoverMethods(discovery, scanner)) {
    const { host, name, method } = discovered;
    for (const work of worksOf(method)) {
      if (work.connection !== connectionName(connection)) continue;
      checkHasInstance(discovered, '@Partitioned', 'a partition is assigned');
      const { instance } = host as { instance: Record<string, (partition: Partition) => unknown> };
      // One instance may be the value of several providers.
      if (joined.some((each) => each.instance === instance && each.work === work)) continue;
      joined.push({ instance, work });
      service.join(work.name, work.options, (partition) => instance[name]!(partition));
    }
  }
}
