import { Injectable, type LoggerService, Scope } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { ZkModule } from 'nestjs-zookeeper';
import {
  CoordinationModule,
  CoordinationService,
  QueueConsumer,
  type QueueItemContext,
} from 'nestjs-zookeeper/coordination';
import { eventually } from '../../support/eventually.js';
import { clientDefaults, useServer } from '../../support/servers.js';

const server = useServer();
const close: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const each of close.splice(0)) await each();
});

interface Mail {
  readonly to: string;
}

@Injectable()
class Mails {
  readonly sent: (Mail & { attempt: number })[] = [];
  readonly urgent: number[] = [];
  started: (() => void) | undefined;
  finish: Promise<void> | undefined;

  @QueueConsumer('mails', { retryDelay: 20 })
  async send(mail: Mail, { attempt }: QueueItemContext): Promise<void> {
    this.started?.();
    await this.finish;
    if (mail.to === 'bad' && attempt === 1) throw new Error('no such address');
    this.sent.push({ ...mail, attempt });
  }

  @QueueConsumer('alarms', { priority: true })
  alarm(level: number): void {
    this.urgent.push(level);
  }
}

async function application(namespace: string, provider: new () => unknown = Mails) {
  const errors: string[] = [];
  const log = () => {};
  const logger: LoggerService = {
    log,
    warn: log,
    error: (message: unknown) => void errors.push(String(message)),
  };
  const module = await Test.createTestingModule({
    imports: [
      ZkModule.forRoot({
        ...clientDefaults,
        connectString: server.connectString,
        namespace,
      }),
      CoordinationModule.forRoot(),
    ],
    providers: [provider],
  })
    .setLogger(logger)
    .compile();
  close.push(() => module.close());
  await module.init();
  return { module, errors, service: module.get(CoordinationService) };
}

describe('@QueueConsumer', () => {
  it('calls the method with the items of the queue, and logs its errors', async () => {
    const namespace = server.path('mails');
    const { module, errors, service } = await application(namespace);
    const queue = service.queue<Mail>('mails');
    expect(queue.path).toBe(`${namespace}/queues/mails`);
    expect(queue.lockPath).toBe(`${namespace}/queue-locks/mails`);
    await queue.put({ to: 'bad' });
    await queue.put({ to: 'ann' });
    await eventually(async () => expect(await queue.size()).toBe(0));
    // The retry and the second put may come in any order.
    expect(module.get(Mails).sent.toSorted((a, b) => a.attempt - b.attempt)).toEqual([
      { to: 'ann', attempt: 1 },
      { to: 'bad', attempt: 2 },
    ]);
    expect(errors).toEqual([
      `queue "mails": item queue-0000000000 of the queue ${queue.path} failed in attempt 1 (error mode requeue): Error: no such address`,
    ]);
  });

  it('handles items with a lower number first, with the option priority', async () => {
    const namespace = server.path('alarms');
    @Injectable()
    class Producer {}
    const { service } = await application(namespace, Producer);
    const queue = service.priorityQueue<number>('alarms');
    for (const level of [3, 1, 2]) await queue.put(level, level);
    const { module } = await application(namespace);
    await eventually(() => expect(module.get(Mails).urgent).toEqual([1, 2, 3]));
  });

  it('takes no more items at the shutdown, which waits for the running call', async () => {
    const namespace = server.path('shutdown');
    const { module, errors, service } = await application(namespace);
    const mails = module.get(Mails);
    let finish!: () => void;
    mails.finish = new Promise((resolve) => (finish = resolve));
    const started = new Promise<void>((resolve) => (mails.started = resolve));
    const queue = service.queue<Mail>('mails');
    await queue.put({ to: 'ann' });
    await queue.put({ to: 'bob' });
    await started;
    const closed = module.close();
    finish();
    await closed;
    expect(mails.sent).toEqual([{ to: 'ann', attempt: 1 }]);
    expect(errors).toEqual([]);
    await expect(queue.put({ to: 'eve' })).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    const other = await application(namespace);
    await eventually(() =>
      expect(other.module.get(Mails).sent).toEqual([{ to: 'bob', attempt: 1 }]),
    );
  });

  it('is an error at the start on a method of a request-scoped provider', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      @QueueConsumer('mails')
      send(): void {}
    }
    await expect(application(server.path('scope'), PerRequest)).rejects.toThrow(
      '@QueueConsumer on PerRequest.send: its provider is created anew',
    );
  });

  it('checks its arguments', () => {
    const decorate = (queue: string, options?: object) => () => {
      class Wrong {
        @QueueConsumer(queue, options)
        send(): void {}
      }
      return Wrong;
    };
    expect(decorate('')).toThrow('queue of @QueueConsumer on Wrong.send must be');
    expect(decorate('a', { concurrency: 0 })).toThrow('concurrency must be');
    expect(decorate('a', { onError: () => {} })).toThrow('unknown option onError');
    expect(decorate('a', { priority: 1 })).toThrow('priority must be true or false');
  });
});
