import { applyDecorators, Get, Injectable, Logger, Post, SetMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Interval } from '@nestjs/schedule';
import {
  BadOptionError,
  DistributedLock,
  DistributedSemaphore,
  LeaderOnly,
  MisuseError,
  OnElected,
  OnResigned,
} from 'nestjs-zookeeper';
import { Partitioned, QueueConsumer, ZkValue } from 'nestjs-zookeeper/coordination';
import { CronOnLeader } from 'nestjs-zookeeper/schedule';
import { describe, expect, it, vi } from 'vitest';
import { silent, startUnconnected } from '../../support/nest-apps.js';
import { Traced } from '../../support/traced.js';

const METADATA = 'test:metadata';

describe('a locked method', () => {
  class Orders {
    @SetMetadata(METADATA, 'below')
    @DistributedLock('orders')
    async above(_goodsNo: string, _count: number): Promise<void> {}

    @DistributedLock('orders')
    @SetMetadata(METADATA, 'below')
    async below(): Promise<void> {}
  }

  it('keeps its name, its number of arguments and the metadata of decorators above and below', () => {
    expect(Orders.prototype.above.name).toBe('above');
    expect(Orders.prototype.above).toHaveLength(2);
    for (const method of [Orders.prototype.above, Orders.prototype.below]) {
      expect(Reflect.getMetadata(METADATA, method)).toBe('below');
    }
    expect(Reflect.getMetadata('design:paramtypes', Orders.prototype, 'above')).toEqual([
      String,
      Number,
    ]);
  });

  it('is locked through applyDecorators() too', async () => {
    const Locked = () => applyDecorators(Get(), DistributedLock('orders'));
    class Controller {
      @Locked()
      async find(): Promise<void> {}
    }
    await expect(new Controller().find()).rejects.toThrow(MisuseError);
  });

  it('rejects, without running, on an object that Nest did not create', async () => {
    let ran = false;
    @Injectable()
    class Goods {
      @DistributedLock('goods')
      async deduct(): Promise<void> {
        ran = true;
      }
      @DistributedSemaphore('goods', { permits: 1 })
      async print() {}
    }
    await expect(new Goods().deduct()).rejects.toThrow(/Goods\.deduct.*Nest did not create/s);
    await expect(new Goods().print()).rejects.toThrow(
      /Goods\.print has a @DistributedSemaphore.*no injected SemaphoreService/,
    );
    await expect(Goods.prototype.deduct.call(undefined as never)).rejects.toThrow(
      /Goods\.deduct has a @DistributedLock but was called without "this"/,
    );
    const app = await startUnconnected({ providers: [{ provide: Goods, useValue: new Goods() }] });
    await expect(app.get(Goods).deduct()).rejects.toThrow(/Goods\.deduct.*useValue/s);
    expect(ran).toBe(false);
    await app.close();
  });
});

describe('without ZkModule', () => {
  @Injectable()
  class Orders {
    @DistributedLock('orders')
    async place(): Promise<void> {}
  }
  @Injectable()
  class Goods {
    @DistributedLock('goods', { connection: 'stock' })
    async deduct(): Promise<void> {}
  }
  @Injectable()
  class Reports {
    @DistributedSemaphore('reports', { permits: 1 })
    async print(): Promise<void> {}
  }

  it.each<[string, object, RegExp]>([
    [
      'a provider',
      { providers: [Orders] },
      /Orders.*add ZkModule\.forRoot\(\{ connectString \}\) to/s,
    ],
    ['a controller', { controllers: [Orders] }, /Orders.*add ZkModule\.forRoot\(/s],
    ['a semaphore', { providers: [Reports] }, /SemaphoreService for @DistributedSemaphore: add Zk/],
    ['another connection', { providers: [Goods] }, /ZkModule\.forRoot\(.*name: "stock"/s],
  ])(
    'the application does not start, and the error says what to import: %s',
    async (_, metadata, message) => {
      await expect(Test.createTestingModule(metadata).setLogger(silent).compile()).rejects.toThrow(
        message,
      );
    },
  );
});

describe('@DistributedLock rejects, and the error names the method,', () => {
  const decorateWith = (make: unknown, ...args: unknown[]) => {
    class Goods {
      async deduct(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Goods.prototype, 'deduct')!;
    const decorator = (make as (...args: unknown[]) => MethodDecorator)(...args);
    decorator(Goods.prototype, 'deduct', descriptor);
  };
  const decorate = (...args: unknown[]) => decorateWith(DistributedLock, ...args);
  const keyFromContext = () => 'k';

  it.each<[unknown[], RegExp]>([
    [[''], /key.*Goods\.deduct.*""/],
    [['a\0'], /key.*Goods\.deduct/],
    [[], /key.*Goods\.deduct.*undefined/],
    [[[]], /key.*Goods\.deduct.*1 to 100 keys/],
    [[['a', 'a']], /key.*Goods\.deduct.*"a" appears twice/],
    [[['a', 'b'], { path: '/x' }], /path.*Goods\.deduct.*list/],
    [['k', { path: null }], /path.*Goods\.deduct.*absolute znode path.*null/],
    [['k', { path: '/' }], /path.*Goods\.deduct.*below the root/],
    [['k', { wait: -1 }], /wait.*Goods\.deduct.*-1/],
    [['k', { wiat: 5 }], /unknown option wiat in.*Goods\.deduct/],
    [['k', { onBusy: 'wait' }], /onBusy.*Goods\.deduct.*"wait"/],
    [['k', { onLost: 'retry' }], /onLost.*Goods\.deduct.*"retry"/],
    [['k', { connection: '' }], /connection.*Goods\.deduct.*""/],
    [['k', { mode: 'shared' }], /mode.*Goods\.deduct.*"shared"/],
    [['k', { holdAtMost: 0 }], /holdAtMost.*Goods\.deduct.*0/],
    [['k', { holdAtLeast: 2, holdAtMost: 1 }], /holdAtLeast.*Goods\.deduct.*holdAtMost/],
    [['k', { details: 5 }], /details.*Goods\.deduct.*5/],
    [['k', { details: { nam: 'x' } }], /unknown option nam in details.*Goods\.deduct.*name\?/],
    [['k', { onRevoke: true }], /onRevoke.*Goods\.deduct.*true/],
    [['k', { signal: AbortSignal.abort() }], /unknown option signal in.*Goods\.deduct/],
    [['k', { wait: Infinity, onBusy: 'skip' }], /wait.*Goods\.deduct.*finite/],
  ])('%j', (args, message) => {
    expect(() => decorate(...args)).toThrow(BadOptionError);
    expect(() => decorate(...args)).toThrow(message);
  });

  it.each<[unknown[], RegExp]>([
    [['k'], /permits of @DistributedSemaphore on Goods\.deduct.*undefined/],
    [['k', { permits: 0 }], /permits.*Goods\.deduct.*0/],
    [['k', { permits: 1, count: 2 }], /count.*Goods\.deduct.*2/],
    [['k', { permits: 1, path: 'x' }], /path.*Goods\.deduct.*starting with '\/'.*"x"/],
    [[['a'], { permits: 1 }], /key.*Goods\.deduct.*array/],
    [['k', { permits: 1, reentrant: true }], /unknown option reentrant in.*Goods\.deduct/],
    [
      ['k', { permits: 1, wait: Infinity, onBusy: 'skip' }],
      /wait of @DistributedSemaphore.*Goods\.deduct.*finite/,
    ],
  ])('with @DistributedSemaphore, %j', (args, message) => {
    const semaphore = () => decorateWith(DistributedSemaphore, ...args);
    expect(semaphore).toThrow(BadOptionError);
    expect(semaphore).toThrow(message);
  });

  it.each<[unknown, RegExp]>([
    [{ electon: 'e' }, /unknown option electon in.*@CronOnLeader on Goods\.deduct: .*election\?/],
    [{ otherwise: 'throw' }, /unknown option otherwise in.*@CronOnLeader/],
    [{ timezone: 'UTC' }, /unknown option timezone in.*did you mean timeZone/],
    [{ connection: '' }, /connection of @CronOnLeader on Goods\.deduct.*""/],
    [{ election: null }, /election of @CronOnLeader on Goods\.deduct.*null/],
    ['', /election of @CronOnLeader on Goods\.deduct.*""/],
    [null, /options of @CronOnLeader.*null/],
  ])('with @CronOnLeader, %j', (options, message) => {
    const cron = () => decorateWith(CronOnLeader, '* * * * *', options);
    expect(cron).toThrow(BadOptionError);
    expect(cron).toThrow(message);
  });

  it('no option of @Cron with @CronOnLeader', () => {
    const options = { name: 'n', timeZone: 'UTC', unrefTimeout: true, disabled: true };
    const others = { threshold: 5, initialDelay: 5, waitForCompletion: false, election: undefined };
    decorateWith(CronOnLeader, '* * * * *', { ...options, ...others });
    decorateWith(CronOnLeader, new Date(), { utcOffset: 60 });
  });

  it.each<[string, unknown]>([
    ['@DistributedLock', DistributedLock('k')],
    ['@DistributedSemaphore', DistributedSemaphore('k', { permits: 1 })],
    ['@LeaderOnly', LeaderOnly('k')],
    ['@OnElected', OnElected('k')],
    ['@OnResigned', OnResigned('k')],
  ])(
    '%s on a class, on something that is not a method, or as a standard decorator',
    (name, decorator) => {
      class Goods {
        static async deduct(): Promise<void> {}
      }
      const decorate = decorator as (...args: unknown[]) => void;
      const descriptor = Object.getOwnPropertyDescriptor(Goods, 'deduct')!;
      expect(() => decorate(Goods, 'deduct', descriptor)).toThrow(
        new RegExp(`${name} (does not work on the static method|on) Goods\\.deduct`),
      );
      const getter = { get: () => 1, configurable: true };
      expect(() => decorate({}, 'price', getter)).toThrow(`${name} on Object.price`);
      expect(() => decorate(Goods)).toThrow(
        `${name} is on the class Goods: write it on each method`,
      );
      expect(() => decorate(function deduct() {}, { kind: 'method' })).toThrow(
        new RegExp(`${name} is on deduct as a standard decorator: set experimentalDecorators`),
      );
    },
  );

  it.each<[string, unknown]>([
    ['@DistributedLock', DistributedLock],
    ['@DistributedSemaphore', DistributedSemaphore],
    ['@LeaderOnly', LeaderOnly],
    ['@OnElected', OnElected],
    ['@QueueConsumer', QueueConsumer],
  ])('%s that is not called, because the method would run without it', (name, decorator) => {
    class Goods {
      async deduct(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Goods.prototype, 'deduct')!;
    const attempt = () => (decorator as MethodDecorator)(Goods.prototype, 'deduct', descriptor);
    expect(attempt).toThrow(MisuseError);
    expect(attempt).toThrow(`${name} on Goods.deduct`);
  });

  it.each<[string, unknown, unknown[]]>([
    ['@LeaderOnly({ election, … })', LeaderOnly, ['e', { otherwise: 'throw' }]],
    ['@DistributedLock({ keyFromContext, … })', DistributedLock, [{ keyFromContext }, { wait: 0 }]],
    ['@DistributedSemaphore(key, { … })', DistributedSemaphore, ['k', { permits: 1 }, 'x']],
    ['@OnElected(election, { connection })', OnElected, ['e', {}, 1]],
    ['@OnResigned(election, { connection })', OnResigned, ['e', {}, 1]],
    ['@Partitioned(name, { … })', Partitioned, ['p', { partitions: 4 }, 'id']],
    ['@QueueConsumer(queue, { … })', QueueConsumer, ['q', {}, 'x']],
    ['@ZkValue(path, { … })', ZkValue, ['p', {}, 'x']],
    ['@CronOnLeader(time, { election, … })', CronOnLeader, ['* * * * *', 'e', { timeZone: 'UTC' }]],
  ])('more arguments than %s has, because they would be ignored', (usage, make, args) => {
    const attempt = () => decorateWith(make, ...args);
    expect(attempt).toThrow(MisuseError);
    expect(attempt).toThrow(`, but has ${args.length}: write ${usage}`);
  });

  it('a generator function, whose body runs only when it is iterated', () => {
    class Goods {
      async *pieces() {
        yield 1;
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Goods.prototype, 'pieces')!;
    const decorator = DistributedLock('k') as MethodDecorator;
    expect(() => decorator(Goods.prototype, 'pieces', descriptor)).toThrow(
      /Goods\.pieces.*generator/,
    );
  });
});

describe("onBusy: 'skip'", () => {
  it('does not start on a handler', async () => {
    class Controller {
      @Post()
      @DistributedLock('orders', { wait: 0, onBusy: 'skip' })
      async place(): Promise<void> {}
    }
    await expect(startUnconnected({ controllers: [Controller] })).rejects.toThrow(
      /Controller\.place.*onBusy: 'skip'.*success although nothing was done/s,
    );
  });

  it('does not start on a handler that calls the decorated method under its own name', async () => {
    class Base {
      @DistributedLock('orders', { wait: 0, onBusy: 'skip' })
      async place(): Promise<void> {}
    }
    class Controller extends Base {
      @Post()
      override async place(): Promise<void> {
        await super.place();
      }
    }
    await expect(startUnconnected({ controllers: [Controller] })).rejects.toThrow(
      /Base\.place.*onBusy: 'skip'.*success although nothing was done/s,
    );
  });

  it('does not start where the wait is endless by default', async () => {
    @Injectable()
    class Jobs {
      @Interval(1_000_000)
      @DistributedLock('jobs', { onBusy: 'skip' })
      async run(): Promise<void> {}
    }
    await expect(startUnconnected({ providers: [Jobs] })).rejects.toThrow(
      /wait.*Jobs\.run.*finite/s,
    );
    await (await startUnconnected({ providers: [Jobs] }, { wait: 0 })).close();
  });
});

describe('a method that was replaced is a warning at the start', () => {
  class Goods {
    @DistributedLock('goods')
    async deduct(): Promise<void> {}
    @LeaderOnly('goods')
    async count(): Promise<void> {}
    @DistributedSemaphore('goods', { permits: 2 })
    async print(): Promise<void> {}
    @Traced
    @DistributedLock('goods')
    async traced(): Promise<void> {}
  }
  @Injectable()
  class Books extends Goods {
    override async deduct(): Promise<void> {}
    @LeaderOnly('books')
    override async count(): Promise<void> {}
    override async print(): Promise<void> {
      await super.print();
    }
  }
  @Injectable()
  class Maps extends Books {}
  class Shop {
    @Post('hidden')
    @Traced
    @DistributedLock('shop')
    async hidden(): Promise<void> {}
    @Post('outside')
    @DistributedLock('shop')
    @Traced
    async outside(): Promise<void> {}
  }

  it('if it is an override without the decorator, or a handler whose metadata another decorator has dropped', async () => {
    const warn = vi.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const app = await startUnconnected({ providers: [Books, Maps, Goods], controllers: [Shop] });
    expect(warn.mock.calls.flat().filter((line) => String(line).includes('@'))).toEqual([
      'a decorator above the @DistributedLock on Shop.hidden replaces the method and drops its metadata, so Nest answers the errors of @DistributedLock with 500: write @DistributedLock above that decorator',
      'Books.deduct overrides Goods.deduct and runs without its @DistributedLock: decorate it too, or call super.deduct()',
    ]);
    warn.mockRestore();
    await app.close();
  });
});
