import { applyDecorators, Get, Injectable, Module, Post, SetMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Interval } from '@nestjs/schedule';
import {
  BadOptionError,
  DistributedLock,
  DistributedSemaphore,
  LeaderOnly,
  MisuseError,
  OnElected,
} from 'nestjs-zookeeper';
import { describe, expect, it } from 'vitest';
import { silent, startUnconnected } from '../../support/nest-apps.js';

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

  it('keeps its name and its number of arguments', () => {
    expect(Orders.prototype.above.name).toBe('above');
    expect(Orders.prototype.above).toHaveLength(2);
  });

  it('keeps the metadata of decorators above and below', () => {
    expect(Reflect.getMetadata(METADATA, Orders.prototype.above)).toBe('below');
    expect(Reflect.getMetadata(METADATA, Orders.prototype.below)).toBe('below');
    expect(Reflect.getMetadata('design:paramtypes', Orders.prototype, 'above')).toEqual([
      String,
      Number,
    ]);
  });

  it('is locked through applyDecorators() too', async () => {
    const Locked = () => applyDecorators(Get(), DistributedLock('orders') as MethodDecorator);
    class Controller {
      @Locked()
      async find(): Promise<void> {}
    }
    await expect(new Controller().find()).rejects.toThrow(MisuseError);
  });

  it('rejects, without running, on an object that Nest did not create', async () => {
    let ran = false;
    class Goods {
      @DistributedLock('goods')
      async deduct(): Promise<void> {
        ran = true;
      }
    }
    await expect(new Goods().deduct()).rejects.toThrow(/Goods\.deduct.*Nest did not create/s);
    await expect(Goods.prototype.deduct.call(undefined as never)).rejects.toThrow(/Goods\.deduct/);
    expect(ran).toBe(false);
  });

  it('rejects on an instance that was provided with useValue', async () => {
    @Injectable()
    class Goods {
      @DistributedLock('goods')
      async deduct(): Promise<void> {}
    }
    const app = await startUnconnected({ providers: [{ provide: Goods, useValue: new Goods() }] });
    await expect(app.get(Goods).deduct()).rejects.toThrow(/Goods\.deduct.*useValue/s);
    await app.close();
  });

  it('does not show the injected service on the instance', async () => {
    @Injectable()
    class Goods {
      readonly name = 'goods';
      @DistributedLock('goods')
      async deduct(): Promise<void> {}
    }
    const app = await startUnconnected({ providers: [Goods] });
    expect({ ...app.get(Goods) }).toEqual({ name: 'goods' });
    expect(Reflect.ownKeys({ ...app.get(Goods) })).toEqual(['name']);
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
  @Module({ controllers: [] })
  class Empty {}

  it('@DistributedSemaphore fails at startup', async () => {
    await expect(
      Test.createTestingModule({ providers: [Reports] })
        .setLogger(silent)
        .compile(),
    ).rejects.toThrow(/SemaphoreService for @DistributedSemaphore: add ZkModule\.forRoot/);
  });

  it('the application does not start, and the error says what to import', async () => {
    await expect(
      Test.createTestingModule({ imports: [Empty], providers: [Orders] })
        .setLogger(silent)
        .compile(),
    ).rejects.toThrow(/Orders.*add ZkModule\.forRoot\(\{ connectString \}\) to the imports/s);
  });

  it('a controller fails at startup', async () => {
    class Controller {
      @Get()
      @DistributedLock('orders')
      async list(): Promise<void> {}
    }
    await expect(
      Test.createTestingModule({ controllers: [Controller] })
        .setLogger(silent)
        .compile(),
    ).rejects.toThrow(/Controller.*add ZkModule\.forRoot/s);
  });

  it('the error names the connection of the decorator', async () => {
    await expect(startUnconnected({ providers: [Goods] })).rejects.toThrow(
      /ZkModule\.forRoot\(.*name: "stock"/s,
    );
  });
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

  it.each<[string, unknown[], RegExp]>([
    ['an empty key', [''], /key.*Goods\.deduct.*""/],
    ['a key with a NUL', ['a\0'], /key.*Goods\.deduct/],
    ['no key', [], /key.*Goods\.deduct.*undefined/],
    ['a key of another type', [42], /key.*Goods\.deduct.*42/],
    ['a negative wait', ['k', { wait: -1 }], /wait.*Goods\.deduct.*-1/],
    ['a wait that is not a number', ['k', { wait: '5s' }], /wait.*Goods\.deduct.*"5s"/],
    ['NaN as a wait', ['k', { wait: Number.NaN }], /wait.*Goods\.deduct.*NaN/],
    ['an unknown option', ['k', { wiat: 5 }], /unknown option wiat in.*Goods\.deduct/],
    ['an unknown onBusy', ['k', { onBusy: 'wait' }], /onBusy.*Goods\.deduct.*"wait"/],
    ['an unknown onLost', ['k', { onLost: 'retry' }], /onLost.*Goods\.deduct.*"retry"/],
    ['an empty connection', ['k', { connection: '' }], /connection.*Goods\.deduct.*""/],
    ['an unknown mode', ['k', { mode: 'shared' }], /mode.*Goods\.deduct.*"shared"/],
    ['a holdAtMost of 0', ['k', { holdAtMost: 0 }], /holdAtMost.*Goods\.deduct.*0/],
    [
      'a holdAtLeast above holdAtMost',
      ['k', { holdAtLeast: 2, holdAtMost: 1 }],
      /holdAtLeast.*Goods\.deduct.*holdAtMost/,
    ],
    ['details that are not an object', ['k', { details: 5 }], /details.*Goods\.deduct.*5/],
    [
      'an onRevoke that is not a function',
      ['k', { onRevoke: true }],
      /onRevoke.*Goods\.deduct.*true/,
    ],
    ['a signal', ['k', { signal: AbortSignal.abort() }], /unknown option signal in.*Goods\.deduct/],
    ['no keys', [[]], /key.*Goods\.deduct.*at least one/],
    ['a key twice', [['a', 'a']], /key.*Goods\.deduct.*"a" appears twice/],
    ['one path for several keys', [['a', 'b'], { path: '/x' }], /path.*Goods\.deduct.*list/],
    [
      "onBusy: 'skip' with an endless wait",
      ['k', { wait: Infinity, onBusy: 'skip' }],
      /wait.*Goods\.deduct.*finite/,
    ],
  ])('%s', (_, args, message) => {
    expect(() => decorate(...args)).toThrow(BadOptionError);
    expect(() => decorate(...args)).toThrow(message);
  });

  it.each<[string, unknown[], RegExp]>([
    ['no permits', ['k'], /permits of @DistributedSemaphore on Goods\.deduct.*undefined/],
    ['0 permits', ['k', { permits: 0 }], /permits.*Goods\.deduct.*0/],
    ['half a permit', ['k', { permits: 0.5 }], /permits.*Goods\.deduct.*0\.5/],
    ['more than there are', ['k', { permits: 1, count: 2 }], /count.*Goods\.deduct.*2/],
    ['a list of keys', [['a'], { permits: 1 }], /key.*Goods\.deduct.*array/],
    [
      'reentrant',
      ['k', { permits: 1, reentrant: true }],
      /unknown option reentrant in.*Goods\.deduct/,
    ],
    [
      "onBusy: 'skip' with an endless wait",
      ['k', { permits: 1, wait: Infinity, onBusy: 'skip' }],
      /wait of @DistributedSemaphore.*Goods\.deduct.*finite/,
    ],
  ])('with @DistributedSemaphore, %s', (_, args, message) => {
    const semaphore = () => decorateWith(DistributedSemaphore, ...args);
    expect(semaphore).toThrow(BadOptionError);
    expect(semaphore).toThrow(message);
  });

  it('a static method', () => {
    class Goods {
      static async deduct(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Goods, 'deduct')!;
    const decorator = DistributedLock('k') as MethodDecorator;
    expect(() => decorator(Goods, 'deduct', descriptor)).toThrow(/static method Goods\.deduct/);
  });

  it.each<[string, unknown]>([
    ['@DistributedLock', DistributedLock('k')],
    ['@DistributedSemaphore', DistributedSemaphore('k', { permits: 1 })],
    ['@LeaderOnly', LeaderOnly('k')],
    ['@OnElected', OnElected('k')],
  ])('%s on a class, or as a standard decorator', (name, decorator) => {
    class Goods {}
    const decorate = decorator as (...args: unknown[]) => void;
    expect(() => decorate(Goods)).toThrow(`${name} is on the class Goods: write it on each method`);
    expect(() => decorate(function deduct() {}, { kind: 'method' })).toThrow(
      new RegExp(`${name} is on deduct as a standard decorator: set experimentalDecorators`),
    );
  });

  it.each<[string, unknown]>([
    ['@DistributedLock', DistributedLock],
    ['@DistributedSemaphore', DistributedSemaphore],
    ['@LeaderOnly', LeaderOnly],
  ])('%s that is not called, because the method would run without it', (name, decorator) => {
    class Goods {
      async deduct(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Goods.prototype, 'deduct')!;
    const attempt = () => (decorator as MethodDecorator)(Goods.prototype, 'deduct', descriptor);
    expect(attempt).toThrow(MisuseError);
    expect(attempt).toThrow(`${name} on Goods.deduct`);
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

  it('something that is not a method', () => {
    const decorator = DistributedLock('k') as MethodDecorator;
    const getter = { get: () => 1, configurable: true };
    expect(() => decorator({}, 'price', getter)).toThrow(/Object\.price/);
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
