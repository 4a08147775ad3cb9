/*
 * What the types of the coordination accept and reject. Nothing here runs: `npm run typecheck` is the test. An
 * @ts-expect-error without an error fails it.
 */
import { applyDecorators } from '@nestjs/common';
import {
  type CoordinationService,
  type LiveValue,
  type Partition,
  Partitioned,
  QueueConsumer,
  type QueueSerializer,
  type StandardSchema,
  ZkValue,
} from 'nestjs-zookeeper/coordination';
import type { LiveValueOptions } from '../../../lib/coordination/live-value.js';

interface Mail {
  readonly to: string;
}

declare const mails: QueueSerializer<Mail>;

const partitioned = Partitioned('orders', { partitions: 4 });
const onMails = () => applyDecorators(QueueConsumer('mails', { serializer: mails }));

export class Consumers {
  @QueueConsumer('mails')
  json(mail: Mail): string {
    return mail.to;
  }

  @QueueConsumer('mails', { serializer: mails, concurrency: 2 })
  serialized(mail: Mail): string {
    return mail.to;
  }

  @onMails()
  stored(mail: Mail): string {
    return mail.to;
  }

  @partitioned
  async partition({ index }: Partition): Promise<number> {
    return index;
  }

  // @ts-expect-error a partition has no such property
  @partitioned
  other({ to }: Mail): string {
    return to;
  }

  // @ts-expect-error the serializer returns another type than the method accepts
  @QueueConsumer('mails', { serializer: mails })
  wrong(level: number): number {
    return level;
  }
}

declare const service: CoordinationService;
declare const limits: StandardSchema<Mail>;
declare const declared: LiveValueOptions<Mail>;

export async function values(): Promise<void> {
  const parsed: LiveValue<number> = await service.value('a', { parse: Number });
  const withDefault: LiveValue<number> = await service.value('a', { default: 10 });
  const both: LiveValue<number> = await service.value('a', { parse: Number, default: 10 });
  const validated: LiveValue<Mail> = await service.value('a', { schema: limits });
  const converted: LiveValue<Mail> = await service.value('a', { schema: limits, parse: String });
  const constant: LiveValue<Mail> = await service.value('a', declared);
  const explicit: LiveValue<Mail> = await service.value<Mail>('a');
  const unknown: LiveValue<unknown> = await service.value('a');
  void [parsed, withDefault, both, validated, converted, constant, explicit, unknown];
  // @ts-expect-error parse returns numbers
  const text: LiveValue<string> = await service.value('a', { parse: Number });
  void text;
  // @ts-expect-error the default has another type than the result of parse
  await service.value('a', { parse: Number, default: 'five' });
  // @ts-expect-error the default has another type than the schema returns
  await service.value('a', { schema: limits, default: 5 });
}

export class Values {
  @ZkValue('a', { parse: Number, default: 10 })
  readonly parsed!: LiveValue<number>;

  @ZkValue('a', { schema: limits, parse: String, connection: 'second' })
  readonly validated!: LiveValue<Mail>;

  @ZkValue('a')
  readonly claimed!: LiveValue<Mail>;

  @ZkValue('a', { default: 'on' })
  readonly narrowed!: LiveValue<'on' | 'off'>;

  @ZkValue('a', { default: null })
  readonly nullable!: LiveValue<Mail | null>;

  @ZkValue('a', { parse: Number })
  private readonly hidden!: LiveValue<number>;

  constructor(@ZkValue('a', { parse: Number }) readonly injected: LiveValue<number>) {
    void this.hidden;
  }

  // @ts-expect-error parse returns numbers
  @ZkValue('a', { parse: Number })
  readonly text!: LiveValue<string>;

  // @ts-expect-error the schema returns a Mail
  @ZkValue('a', { schema: limits })
  readonly other!: LiveValue<number>;

  // @ts-expect-error a LiveValue and not the value
  @ZkValue('a', { parse: Number })
  readonly value!: number;

  // @ts-expect-error the default has another type than the result of parse
  @ZkValue('a', { parse: Number, default: 'five' })
  readonly wrong!: LiveValue<number>;
}
