import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable, Logger, Module, Scope } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ZkClient, ZkModule } from 'nestjs-zookeeper';
import {
  CoordinationModule,
  CoordinationService,
  getZkValueToken,
  type LiveValue,
  LiveValueError,
  type StandardSchema,
  ZkValue,
} from 'nestjs-zookeeper/coordination';
import { of } from 'rxjs';
import { expect, vi } from 'vitest';
import type { LiveValueOptions } from '../../../lib/coordination/live-value.js';
import { expire, useClients } from '../../support/clients.js';
import { isSimulated } from '../../support/environment.js';
import { eventually } from '../../support/eventually.js';
import { failureOf } from '../../support/recipe-nodes.js';
import { silent, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it, testProcess } from '../../support/virtual-time.js';

interface Limits {
  readonly max: number;
}

/** A schema as Zod makes it: `max` must be a number. */
const LimitsSchema: StandardSchema<Limits> = {
  '~standard': {
    version: 1,
    validate: (value) => {
      const { max } = (value ?? {}) as Partial<Limits>;
      if (typeof max === 'number') return { value: { max } };
      return { issues: [{ message: 'expected a number', path: ['max'] }] };
    },
  },
};

const rejected = () => Promise.reject(new Error('asynchronous'));
const schemaOf = (validate: () => unknown) =>
  ({ schema: { '~standard': { version: 1, validate } } }) as LiveValueOptions<unknown>;

const limitsOptions = { schema: LimitsSchema };

@Injectable()
class Orders {
  /** The value at the time of the construction. */
  readonly first: Limits;

  constructor(@ZkValue('config/limits', limitsOptions) readonly limits: LiveValue<Limits>) {
    this.first = limits.value;
  }
}

@Injectable()
class Prices {
  @ZkValue('config/limits', limitsOptions)
  readonly limits!: LiveValue<Limits>;

  @ZkValue('config/rate', { parse: Number, default: 0 })
  readonly rate!: LiveValue<number>;
}

/** Needs a znode that no test creates. The other tests must start without it. */
@Injectable()
class Unused {
  @ZkValue('config/nowhere')
  readonly value!: LiveValue<unknown>;
}

const server = useServer();
const apps = useApps(server);
const connect = useClients(server);
afterEach(() => vi.restoreAllMocks());

/** A client in the namespace of the applications of this test, with the znodes. */
async function write(znodes: Record<string, string>): Promise<ZkClient> {
  const { namespace } = apps.options();
  const client = await connect({ namespace });
  // A server may reap an empty container before a test creates the next znode in it.
  await client.ensureContainers(`${client.namespace}/config`, { persistent: true });
  for (const [name, data] of Object.entries(znodes)) {
    await client.create(`${client.namespace}/config/${name}`, data);
  }
  return client;
}

const imports = [CoordinationModule.forRoot()];

it('injects a value that is there in the constructor and follows the znode', async () => {
  const writer = await write({ limits: '{"max":5}' });
  // CoordinationModule is global, and reaches the providers of other modules.
  @Module({ providers: [Orders] })
  class OrdersModule {}
  const app = await apps.start({ imports: [...imports, OrdersModule], providers: [Prices] });
  const { first, limits } = app.get(Orders, { strict: false });
  expect(first).toEqual({ max: 5 });
  expect(app.get(Prices).limits).toBe(limits);
  const seen: Limits[] = [];
  let completed = false;
  limits.changes.subscribe({
    next: (value) => seen.push(value),
    complete: () => (completed = true),
  });
  await writer.set(limits.path, '{"max":6}');
  await eventually(() => expect(seen).toEqual([{ max: 5 }, { max: 6 }]));
  expect(limits.value).toEqual({ max: 6 });
  expect(limits.staleSince).toBeUndefined();
  await app.close();
  expect(completed).toBe(true);
  expect(limits.value).toEqual({ max: 6 });
});

it('uses the default while the znode is missing', async () => {
  const writer = await write({ limits: '{"max":5}' });
  const app = await apps.start({ imports, providers: [Prices] });
  const { rate } = app.get(Prices);
  expect(rate.value).toBe(0);
  await writer.create(rate.path, '2.5');
  await eventually(() => expect(rate.value).toBe(2.5));
  await writer.delete(rate.path);
  await eventually(() => expect(rate.value).toBe(0));
});

it('logs data that is not valid, and keeps the last valid value', async () => {
  const writer = await write({ limits: '{"max":5}' });
  const error = vi.spyOn(Logger.prototype, 'error');
  const app = await apps.start({ imports, providers: [Orders] });
  const { limits } = app.get(Orders);
  const next = vi.fn();
  limits.changes.subscribe(next);
  await writer.set(limits.path, '{"max":"secret"}');
  await eventually(() => expect(error).toHaveBeenCalledTimes(1));
  await writer.set(limits.path, '"secret');
  await eventually(() => expect(error).toHaveBeenCalledTimes(2));
  await writer.delete(limits.path);
  await eventually(() => expect(error).toHaveBeenCalledTimes(3));
  expect(error.mock.calls.map(([line]) => line)).toEqual([
    `the data of znode ${limits.path}, version 1, is not valid: max: expected a number; the last valid value stays in use`,
    `the data of znode ${limits.path}, version 2, is not valid: it is not JSON; the last valid value stays in use`,
    `znode ${limits.path} was deleted; its last value stays in use`,
  ]);
  expect(limits.value).toEqual({ max: 5 });
  await writer.create(limits.path, '{"max":7}');
  await eventually(() => expect(limits.value).toEqual({ max: 7 }));
  expect(next.mock.calls).toEqual([[{ max: 5 }], [{ max: 7 }]]);
});

it('keeps the last value of a znode that it may not read any more', async () => {
  const { namespace } = apps.options();
  const owner = await connect({
    namespace,
    auth: [{ scheme: 'digest', user: 'o', password: 'p' }],
  });
  const path = `${namespace}/config/rate`;
  await owner.ensureContainers(`${namespace}/config`, { persistent: true });
  await owner.create(path, '2');
  const error = vi.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
  const app = await apps.start({ imports });
  const rate = await app.get(CoordinationService).value(path, { parse: Number, default: 1 });
  const seen: number[] = [];
  rate.changes.subscribe((value) => seen.push(value));
  await owner.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
  await owner.set(path, '3');
  // ZooKeeper 3.9 sends no events of a znode that the client may not read.
  await expire(app.client, server);
  await eventually(() => expect(error).toHaveBeenCalledOnce());
  expect(error.mock.calls[0]![0]).toContain(`the value of znode ${path} was not read: `);
  expect(rate.value).toBe(2);
  expect(rate.staleSince).toBeTypeOf('number');
  await owner.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
  await expire(app.client, server);
  await eventually(() => expect(rate.value).toBe(3));
  await eventually(() => expect(rate.staleSince).toBeUndefined());
  expect(seen).toEqual([2, 3]);
});

it('fails the start, and closes the client, if the znode is missing or not valid', async () => {
  const close = vi.spyOn(ZkClient.prototype, 'close');
  await write({});
  const missing = await failureOf(apps.start({ imports, providers: [Orders] }));
  expect(missing).toBeInstanceOf(LiveValueError);
  const path = `${apps.options().namespace}/config/limits`;
  expect((missing as Error).message).toBe(
    `znode ${path} of a live value does not exist: create it, or set default`,
  );
  expect(close).toHaveBeenCalledTimes(1);
  await write({ limits: '{}' });
  const invalid = await failureOf(apps.start({ imports, providers: [Orders] }));
  expect(invalid).toMatchObject({ code: 'LIVE_VALUE', key: path });
  expect((invalid as Error).message).toBe(
    `the data of znode ${path}, version 0, is not valid: max: expected a number; correct the data`,
  );
});

it('refuses data that are not valid, also with a default', async () => {
  const { namespace } = await write({ text: 'ten', one: '1', broken: '{' });
  const service = (await apps.start({ imports })).get(CoordinationService);
  const cases: [string, string, LiveValueOptions<unknown>][] = [
    [
      'broken',
      'it is not JSON; correct the data, because the default is only for a missing znode',
      { default: 1 },
    ],
    ['text', 'it is not a number (NaN)', { parse: Number }],
    ['one', 'its parse function returned a promise: make it synchronous', { parse: rejected }],
    ['one', 'its schema returned a promise: make it synchronous', schemaOf(rejected)],
    ['one', 'its schema returned no result of a Standard Schema', schemaOf(() => undefined)],
    ['one', 'its schema refused it without an issue', schemaOf(() => ({ issues: [] }))],
  ];
  for (const [name, reason, options] of cases) {
    const path = `${namespace}/config/${name}`;
    const value = service.value(path, options);
    const message = `the data of znode ${path}, version 0, is not valid: ${reason}`;
    await expect(value, reason).rejects.toThrow(message);
  }
});

it('opens no value that the application does not inject', async () => {
  await write({});
  expect(Unused).toBeDefined();
  const app = await apps.start({ imports });
  expect(() => app.get(getZkValueToken('config/nowhere'))).toThrow();
});

it('serves factories, and providers of each request', async () => {
  await write({ limits: '{"max":5}' });
  @Injectable({ scope: Scope.REQUEST })
  class PerRequest {
    constructor(@ZkValue('config/limits', limitsOptions) readonly limits: LiveValue<Limits>) {}
  }
  const made = {
    provide: 'doubled',
    inject: [getZkValueToken('config/limits')],
    useFactory: (limits: LiveValue<Limits>) => limits.value.max * 2,
  };
  const app = await apps.start({ imports, providers: [made, PerRequest, Orders] });
  expect(app.get('doubled')).toBe(10);
  const { limits } = await app.resolve(PerRequest);
  expect(limits).toBe(app.get(Orders).limits);
});

it('can be replaced in a test, with and without a connection', async () => {
  const limits = { value: { max: 1 }, changes: of({ max: 1 }) };
  const alone = await Test.createTestingModule({
    providers: [Orders, { provide: getZkValueToken('config/limits'), useValue: limits }],
  }).compile();
  expect(alone.get(Orders).limits).toBe(limits);
  const builder = Test.createTestingModule({
    imports: [ZkModule.forRoot(apps.options()), ...imports],
    providers: [Orders],
  })
    .overrideProvider(getZkValueToken('config/limits'))
    .useValue(limits)
    .setLogger(silent);
  if (isSimulated) testProcess().override(builder);
  const module = await builder.compile();
  await module.init();
  expect(module.get(Orders).limits).toBe(limits);
  await module.close();
});

it('refuses different options for one value, and wrong options', async () => {
  await write({ shared: '1' });
  @Injectable()
  class One {
    constructor(@ZkValue('config/shared', { parse: Number }) readonly value: LiveValue<number>) {}
  }
  @Injectable()
  class Two {
    @ZkValue('config/shared', { parse: String })
    readonly value!: LiveValue<string>;
  }
  const start = apps.start({ imports, providers: [One, Two] });
  await expect(start).rejects.toThrow(
    '@ZkValue("config/shared") on parameter 0 of the constructor of One and on Two.value have different options: pass the same object to both',
  );
  const wrong = (options: object) => () => ZkValue('config/x', options);
  for (const path of ['', undefined]) {
    expect(() => ZkValue(path as string)).toThrow('path must be the path of a znode');
  }
  expect(wrong({ parse: 1 })).toThrow('parse must be a function, but is 1');
  expect(wrong({ schema: {} })).toThrow("schema must be a Standard Schema, which has '~standard'");
  expect(wrong({ schema: null })).toThrow('schema must be a Standard Schema');
  expect(wrong({ defualt: 1 })).toThrow('did you mean default?');
  expect(wrong({ connection: '' })).toThrow('connection must be a non-empty string');
});

it('keeps the options of classes with the same name apart, and ignores classes of other applications', async () => {
  await write({});
  const serviceWith = (fallback: number) => {
    @Injectable()
    class Service {
      constructor(
        @ZkValue('config/same-name', { default: fallback }) readonly value: LiveValue<number>,
      ) {}
    }
    return Service;
  };
  const [One, Two] = [serviceWith(1), serviceWith(2)];
  const app = await apps.start({ imports, providers: [One] });
  expect(app.get(One).value.value).toBe(1);
  class Derived extends Two {}
  await expect(apps.start({ imports, providers: [One, Derived] })).rejects.toThrow(
    '@ZkValue("config/same-name") on parameter 0 of the constructor of Service and on parameter 0 of the constructor of Service have different options',
  );
});

it('serves a named connection that is not global, and an absolute path', async () => {
  const writer = await connect();
  const path = server.path('absolute');
  await writer.create(path, '"text"');
  @Injectable()
  class Reader {
    @ZkValue(path, { connection: 'second' })
    readonly value!: LiveValue<string>;
  }
  @Module({
    imports: [CoordinationModule.forRoot({ connection: 'second', isGlobal: false })],
    providers: [Reader],
  })
  class Feature {}
  const app = await apps.start({ imports: [Feature] }, { name: 'second' });
  expect(app.get(Reader, { strict: false }).value.value).toBe('text');
});

it.each([{ type: 'none' }, undefined] as const)(
  'starts with the default while no server can be reached, and does not wait for a retry policy (%o)',
  async (retry) => {
    @Injectable()
    class Lazy {
      @ZkValue('config/lazy', { default: 'fallback' })
      readonly value!: LiveValue<string>;
    }
    const begin = performance.now();
    const unreachable = { connectString: '127.0.0.1:1', lazyConnection: true, retry };
    const app = await apps.start({ imports, providers: [Lazy] }, unreachable);
    expect(app.get(Lazy).value.value).toBe('fallback');
    expect(app.get(Lazy).value.staleSince).toBeTypeOf('number');
    // The default retry policy takes 9 seconds.
    if (isSimulated) expect(performance.now() - begin).toBeLessThan(6_000);
  },
);

it('CoordinationService opens caches and values, and the shutdown closes them', async () => {
  const writer = await write({ a: '1' });
  const app = await apps.start({ imports });
  const service = app.get(CoordinationService);
  const cache = service.cache('config');
  await cache.initialized();
  expect(cache.path).toBe(`${writer.namespace}/config`);
  expect(cache.children()).toEqual(['a']);
  const value = await service.value<number>('config/a');
  expect(value.value).toBe(1);
  await expect(service.value('config/none')).rejects.toThrow(LiveValueError);
  expect(() => service.cache('/')).not.toThrow();
  expect(() => service.cache('a//b')).toThrow('path must be a znode path without empty parts');
  await expect(service.value(1 as never)).rejects.toThrow('path must be an absolute znode path');
  await app.close();
  expect(cache.state).toBe('closed');
  await writer.set(value.path, '2');
  expect(value.value).toBe(1);
});

it('calls each subscriber of changes in its own context, and not in that of the code that opened the value', async () => {
  const writer = await write({ a: '1' });
  const app = await apps.start({ imports });
  const service = app.get(CoordinationService);
  const caller = new AsyncLocalStorage<string>();
  const value = await caller.run('opener', () => service.value<number>('config/a'));
  const seen: (string | undefined)[] = [];
  caller.run('subscriber', () => value.changes.subscribe(() => seen.push(caller.getStore())));
  value.changes.subscribe(() => seen.push(caller.getStore()));
  await writer.set(value.path, '2');
  const each = ['subscriber', undefined];
  await expect.poll(() => seen).toEqual([...each, ...each]);
});
