import { checkKey } from '../services/keys.js';
import { checkArguments } from '../decorators/decorate-method.js';
import { backgroundMethod } from './background-method.js';
import {
  CONSUME_RULES,
  type ConsumeOptions,
  type QueueHandler,
} from './recipes/consume-options.js';
import type { QueueSerializer } from './recipes/internals/queue-items.js';
import { BOOLEAN, type Rules, uncheckedRules } from '../client/index.js';

/**
 * The options of {@link QueueConsumer}.
 *
 * @typeParam T the type of the items, by the serializer
 * @publicApi
 */
export interface QueueConsumerOptions<T = never> extends Omit<
  ConsumeOptions,
  'signal' | 'onError'
> {
  /** Whether items with a lower priority number are handled first; see {@link QueueOptions.prioritized}. Default false. */
  prioritized?: boolean | undefined;
  /** Converts bytes to items. The first parameter of the method must accept them. Default: JSON. */
  serializer?: QueueSerializer<T> | undefined;
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
}

const { signal: _, onError: __, ...consumeRules } = CONSUME_RULES;
const RULES: Rules<QueueConsumerOptions> = {
  ...consumeRules,
  prioritized: BOOLEAN,
  ...uncheckedRules('serializer', 'connection'),
};

const INFO = { decorator: '@QueueConsumer', calledWhen: 'an item is taken' };

/**
 * Calls the method with each item of a queue that this process takes, from the start of the application until its
 * shutdown. When the method resolves, the item is deleted. Its errors are logged and follow `errorMode`. The shutdown takes
 * no more items in its earliest phase, and waits for running calls up to `stopTimeout`.
 *
 * ```ts
 * @QueueConsumer('mails', { concurrency: 4 })
 * async send(mail: Mail, { signal, attempt }: QueueItemContext) { … }
 * ```
 *
 * A method of a request-scoped or transient provider is an error at the start of the application.
 *
 * @throws BadOptionError, MisuseError
 * @publicApi
 */
export function QueueConsumer<T = never>(queue: string, options: QueueConsumerOptions<T> = {}) {
  checkArguments('@QueueConsumer', arguments, ['queue', '{ … }']);
  return backgroundMethod<QueueHandler<T>, QueueConsumerOptions<T>>(
    INFO,
    options,
    RULES,
    (label, { prioritized, serializer, ...consume }) => {
      checkKey(queue, `queue of ${label}`);
      return ({ coordination }, call) => {
        coordination.queue<T>(queue, { prioritized, serializer }).consume(call, consume);
      };
    },
  );
}
