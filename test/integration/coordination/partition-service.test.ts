import { Injectable, Logger, Scope } from '@nestjs/common';
import { filter, firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { describe, expect, vi } from 'vitest';
import { BadOptionError, ShuttingDownError } from 'nestjs-zookeeper';
import {
  CoordinationModule,
  CoordinationService,
  type Partition,
  Partitioned,
  PartitionService,
} from 'nestjs-zookeeper/coordination';
import { aborted } from '../../support/clients.js';
import { useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it } from '../../support/virtual-time.js';

const server = useServer();
const apps = useApps(server);
const imports = [CoordinationModule.forRoot()];
afterEach(() => vi.restoreAllMocks());
const quick = { partitions: 4, rebalanceDelay: 20 };

@Injectable()
class Orders {
  readonly running = new Map<number, Partition>();

  @Partitioned('orders', quick)
  async work(partition: Partition) {
    this.running.set(partition.index, partition);
    await aborted(partition.signal);
    this.running.delete(partition.index);
  }
}

describe('@Partitioned', () => {
  it('calls the method for each partition, and releases all of them when the application shuts down', async () => {
    const one = await apps.start({ imports, providers: [Orders] });
    await expect.poll(() => one.get(Orders).running.size).toBe(4);
    const two = await apps.start({ imports, providers: [Orders] });
    const [a, b] = [one.get(Orders), two.get(Orders)];
    await expect.poll(() => [a.running.size, b.running.size]).toEqual([2, 2]);
    expect(await one.get(PartitionService).assignment('orders')).toHaveProperty('size', 2);
    const left = [...a.running.values()];
    await one.close();
    expect(a.running.size).toBe(0);
    expect(left.map(({ owned }) => owned)).toEqual([false, false]);
    await expect.poll(() => b.running.size).toBe(4);
  });

  it('logs the errors of the method, and of a handler with the option onError undefined', async () => {
    @Injectable()
    class Failing {
      @Partitioned('failing', { ...quick, partitions: 1 })
      work() {
        throw new Error('no database');
      }
    }
    const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    const app = await apps.start({ imports, providers: [Failing] });
    const options = { ...quick, partitions: 1, onError: undefined };
    app.get(PartitionService).join('other', options, () => {
      throw new Error('no disk');
    });
    await expect
      .poll(() => error.mock.calls.map(([message]) => message as string).sort())
      .toEqual([
        'partitions "failing", partition 0: no database',
        'partitions "other", partition 0: no disk',
      ]);
    await app.close();
  });

  it('is an error at the start on a provider without a single instance', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {
      @Partitioned('orders', quick)
      async work() {}
    }
    await expect(apps.start({ imports, providers: [PerRequest] })).rejects.toThrow(
      '@Partitioned on PerRequest.work: its provider is created anew for each request',
    );
  });

  it('is an error at the start without a CoordinationModule, and twice with one name', async () => {
    await expect(apps.start({ providers: [Orders] })).rejects.toThrow(
      'add CoordinationModule.forRoot() to the imports',
    );
    class Other {
      @Partitioned('orders', { ...quick, connection: 'other' })
      async work() {}
    }
    await expect(apps.start({ imports, providers: [Other] })).rejects.toThrow(
      'add CoordinationModule.forRoot({ connection: "other" }) to the imports',
    );
    @Injectable()
    class Twice extends Orders {
      @Partitioned('orders', quick)
      async more() {}
    }
    await expect(apps.start({ imports, providers: [Twice] })).rejects.toThrow(
      /^@Partitioned on (Twice.more|Orders.work): this process has joined the partitions "orders" already/,
    );
  });

  it('refuses wrong options where it is written', () => {
    const on = (options: object, name = 'orders') => {
      const value = Orders.prototype.work;
      return () => Partitioned(name, options as never)(Orders.prototype, 'work', { value });
    };
    for (const options of [{}, { partitions: 0 }, { partitions: 1, onError: () => {} }]) {
      expect(on(options)).toThrow(BadOptionError);
      expect(on(options)).toThrow('@Partitioned on Orders.work');
    }
    const bare = () => Partitioned(Orders.prototype as never, 'work' as never);
    expect(bare).toThrow('options of @Partitioned must be');
    expect(on(quick, '')).toThrow('name of @Partitioned on Orders.work');
  });
});

describe('PartitionService', () => {
  it('emits the partitions that this process owns, and completes at the shutdown', async () => {
    const app = await apps.start({ imports });
    const partitions = app.get(PartitionService);
    const counts = lastValueFrom(partitions.changes('jobs').pipe(toArray()));
    expect(partitions.owned('jobs')).toEqual([]);
    partitions.join('jobs', { ...quick, partitions: 2 }, ({ signal }) => aborted(signal));
    await firstValueFrom(partitions.changes('jobs').pipe(filter(({ length }) => length === 2)));
    expect(partitions.owned('jobs').map(({ index }) => index)).toEqual([0, 1]);
    await app.close();
    expect((await counts).map(({ length }) => length)).toEqual([0, 1, 2, 1, 0]);
    expect(() => partitions.join('jobs', quick, () => {})).toThrow(ShuttingDownError);
  });

  it('refuses to join a group twice, and joins again after close()', async () => {
    const app = await apps.start({ imports });
    const partitions = app.get(PartitionService);
    const first = partitions.join('jobs', quick, () => {});
    expect(() => partitions.join('jobs', quick, () => {})).toThrow(BadOptionError);
    await first.close();
    expect(partitions.join('jobs', quick, () => {})).not.toBe(first);
  });
});

it('waits for all recipes at the shutdown if one of them cannot be closed', async () => {
  const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
  const app = await apps.start({ imports });
  const [partitions, service] = [app.get(PartitionService), app.get(CoordinationService)];
  const failed = new Error('throttled');
  const broken = [
    partitions.join('broken', quick, ({ signal }) => aborted(signal)),
    service.members('broken'),
  ];
  const close = broken.map((each) => {
    const original = each.close.bind(each);
    each.close = () => Promise.reject(failed);
    return original;
  });
  const changes = lastValueFrom(partitions.changes('broken').pipe(toArray()));
  const node = service.persistentNode('node');
  await node.waitForInitialCreate();
  const other = partitions.join('other', quick, ({ signal }) => aborted(signal));
  await Promise.all([partitions.closeAll(), service.closeAll()]);
  expect([node.state, other.state]).toEqual(['closed', 'closed']);
  await changes;
  expect(error.mock.calls).toEqual([
    ['a recipe was not closed: Error: throttled', failed.stack],
    ['a recipe was not closed: Error: throttled', failed.stack],
  ]);
  await Promise.all(close.map((each) => each()));
});
