/*
 * What the types of the coordination accept and reject. Nothing here runs: `npm run typecheck` is the test. An
 * @ts-expect-error without an error fails it.
 */
import { QueueConsumer, type QueueSerializer } from 'nestjs-zookeeper/coordination';

interface Mail {
  readonly to: string;
}

declare const mails: QueueSerializer<Mail>;

export class Consumers {
  @QueueConsumer('mails')
  json(mail: Mail): string {
    return mail.to;
  }

  @QueueConsumer('mails', { serializer: mails, concurrency: 2 })
  serialized(mail: Mail): string {
    return mail.to;
  }

  // @ts-expect-error the serializer returns another type than the method accepts
  @QueueConsumer('mails', { serializer: mails })
  wrong(level: number): number {
    return level;
  }
}
