import 'reflect-metadata';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { checkBoolean, checkOptions } from '../client/validation.js';
import { checkHasInstance, discoverMethods } from '../decorators/coordination.explorer.js';
import { checkLegacyMethod, isMethod } from '../decorators/decorate-method.js';
import { injectService } from '../decorators/injected-service.js';
import { MisuseError } from '../decorators/requirement.js';
import { checkKey } from '../services/keys.js';
import { connectionName } from '../services/tokens.js';
import { type CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
import { checkConsume, type ConsumeOptions, type QueueHandler } from './recipes/consume-options.js';
import type { QueueSerializer } from './recipes/internals/queue-items.js';

const METADATA = 'nestjs-zookeeper:queue-consumer';

/**
 * The options of {@link QueueConsumer}.
 *
 * @publicApi
 */
export interface QueueConsumerOptions extends Omit<ConsumeOptions, 'signal' | 'onError'> {
  /** Whether items with a lower priority number are handled first, see {@link DistributedPriorityQueue}. Default false. */
  priority?: boolean | undefined;
  /** Converts bytes to items. Default: JSON. */
  serializer?: QueueSerializer<never> | undefined;
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
}

const OPTIONS = [
  'concurrency',
  'errorMode',
  'retryDelay',
  'closeTimeout',
  'priority',
  'serializer',
  'connection',
] satisfies (keyof QueueConsumerOptions)[];

/** A decorated method. */
interface Consumer {
  readonly queue: string;
  readonly connection: string;
  readonly priority: boolean;
  readonly serializer: QueueSerializer<unknown> | undefined;
  readonly options: ConsumeOptions;
}

/**
 * Calls the method with each item of a queue that this process takes, from the start of the application until its
 * shutdown. When the method resolves, the item is deleted. Its errors are logged and follow `errorMode`. The shutdown takes
 * no more items in its earliest phase, and waits for running calls up to `closeTimeout`.
 *
 * ```ts
 * @QueueConsumer('mails', { concurrency: 4 })
 * async send(mail: Mail, { signal, attempt }: QueueItem) { … }
 * ```
 *
 * A method of a request-scoped or transient provider is an error at the start of the application.
 *
 * @throws BadOptionError, MisuseError
 * @publicApi
 */
export function QueueConsumer(queue: string, options: QueueConsumerOptions = {}) {
  return <M extends QueueHandler<never>>(
    target: object,
    method: string | symbol,
    descriptor: TypedPropertyDescriptor<M>,
  ): void => {
    checkLegacyMethod('@QueueConsumer', target, method);
    const isStatic = typeof target === 'function';
    const owner = isStatic ? target.name : target.constructor.name;
    const label = `@QueueConsumer on ${owner}.${String(method)}`;
    const fn: unknown = descriptor?.value;
    if (isStatic || !isMethod(fn)) throw new MisuseError(`${label} is not on an instance method`);
    checkKey(queue, `queue of ${label}`);
    checkOptions(options, OPTIONS, `options of ${label}`);
    const { connection: given, priority = false, serializer, ...rest } = options;
    checkBoolean(priority, 'priority');
    checkConsume(rest, () => {});
    const connection = connectionName(given, `connection of ${label}`);
    // The method does not use the service; the injection makes the start fail without a CoordinationModule.
    injectService(target, {
      decorator: '@QueueConsumer',
      service: 'CoordinationService',
      serviceToken: getCoordinationServiceToken(connection),
      connection,
      module: 'CoordinationModule.forRoot()',
    });
    const consumer: Consumer = { queue, connection, priority, serializer, options: rest };
    Reflect.defineMetadata(METADATA, [...consumersOf(fn), consumer], fn);
  };
}

function consumersOf(method: object): readonly Consumer[] {
  return (Reflect.getMetadata(METADATA, method) as Consumer[] | undefined) ?? [];
}

/**
 * Starts the consumers of the decorated methods of an application.
 *
 * @throws MisuseError if a method has no instance that could be called
 */
export function startConsumers(
  service: CoordinationService,
  connection: string | undefined,
  discovery: DiscoveryService,
  scanner: MetadataScanner,
): void {
  const started: { instance: unknown; consumer: Consumer }[] = [];
  for (const discovered of discoverMethods(discovery, scanner)) {
    const { host, name, method } = discovered;
    for (const consumer of consumersOf(method)) {
      if (consumer.connection !== connectionName(connection)) continue;
      checkHasInstance(discovered, '@QueueConsumer', 'an item is taken');
      const { instance } = host as { instance: Record<string, QueueHandler<unknown>> };
      // One instance may be the value of several providers.
      if (started.some((each) => each.instance === instance && each.consumer === consumer))
        continue;
      started.push({ instance, consumer });
      const { queue, priority, serializer, options } = consumer;
      const opened = priority
        ? service.priorityQueue(queue, { serializer })
        : service.queue(queue, { serializer });
      opened.consume((item, context) => instance[name]!(item, context), options);
    }
  }
}
