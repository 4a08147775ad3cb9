import { Injectable, Logger, Scope } from '@nestjs/common';
import { describe, expect, vi } from 'vitest';
import {
  CoordinationModule,
  CoordinationService,
  QueueConsumer,
  type QueueItemContext,
} from 'nestjs-zookeeper/coordination';
import { eventually } from '../../support/eventually.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const server = useServer();
const apps = useApps(server);

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

  @QueueConsumer('alarms', { prioritized: true })
  alarm(level: number): void {
    this.urgent.push(level);
  }
}

async function start(...providers: (new () => unknown)[]) {
  const app = await apps.start({ imports: [CoordinationModule.forRoot()], providers });
  return Object.assign(app, { service: app.get(CoordinationService) });
}

const errors: unknown[] = [];
beforeEach(() => {
  errors.length = 0;
  vi.spyOn(Logger.prototype, 'error').mockImplementation((message) => void errors.push(message));
});
afterEach(() => vi.restoreAllMocks());

describe('@QueueConsumer', () => {
  it('calls the method with the items of the queue, and logs its errors', async () => {
    const app = await start(Mails);
    const { namespace } = apps.options();
    const queue = app.service.queue<Mail>('mails');
    expect(queue.path).toBe(`${namespace}/queues/mails`);
    expect(queue.lockPath).toBe(`${namespace}/queue-locks/mails`);
    await queue.put({ to: 'bad' });
    await queue.put({ to: 'ann' });
    await eventually(async () => expect(await queue.size()).toBe(0));
    // The retry and the second put may come in any order.
    expect(app.get(Mails).sent.toSorted((a, b) => a.attempt - b.attempt)).toEqual([
      { to: 'ann', attempt: 1 },
      { to: 'bad', attempt: 2 },
    ]);
    expect(errors).toEqual([
      `queue "mails": item queue-0000000000 of the queue ${queue.path} failed in attempt 1 (error mode requeue): Error: no such address`,
    ]);
  });

  it('starts once: a second CoordinationModule of its connection is refused', async () => {
    const feature = () => ({ module: class Feature {}, imports: [CoordinationModule.forRoot()] });
    const starting = apps.start({ imports: [feature(), feature()], providers: [Mails] });
    await expect(starting).rejects.toThrow('connection must be unique: 2 CoordinationModules');
  });

  it('handles items with a lower number first, with the option prioritized', async () => {
    const { service } = await start();
    const queue = service.queue<number>('alarms', { prioritized: true });
    for (const level of [3, 1, 2]) await queue.put(level, { priority: level });
    const { urgent } = (await start(Mails)).get(Mails);
    await eventually(() => expect(urgent).toEqual([1, 2, 3]));
  });

  it('takes no more items at the shutdown, which waits for the running call', async () => {
    const app = await start(Mails);
    const mails = app.get(Mails);
    let finish!: () => void;
    mails.finish = new Promise((resolve) => (finish = resolve));
    const started = new Promise<void>((resolve) => (mails.started = resolve));
    const queue = app.service.queue<Mail>('mails');
    await queue.put({ to: 'ann' });
    await queue.put({ to: 'bob' });
    await started;
    const closed = app.close();
    finish();
    await closed;
    expect(mails.sent).toEqual([{ to: 'ann', attempt: 1 }]);
    expect(errors).toEqual([]);
    await expect(queue.put({ to: 'eve' })).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    const { sent } = (await start(Mails)).get(Mails);
    await eventually(() => expect(sent).toEqual([{ to: 'bob', attempt: 1 }]));
  });

  it('is an error at the start on a method of a request-scoped provider', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      @QueueConsumer('mails')
      send(): void {}
    }
    await expect(start(PerRequest)).rejects.toThrow(
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
    expect(decorate('a', { prioritized: 1 })).toThrow('prioritized must be true or false');
  });
});
