import { ConsoleLogger, Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { inspect } from 'node:util';
import {
  BadOptionError,
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
  LeaderService,
  LockService,
  SemaphoreService,
  ZkClient,
  ZkModule,
  type ZkModuleOptions,
} from 'nestjs-zookeeper';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { describe, expect, it, vi } from 'vitest';
import { ZK_RULES } from '../../lib/zk.options.js';
import { silent } from '../support/nest-apps.js';

/** An address without a server: these applications fail or stay unconnected. */
const connectString = '127.0.0.1:1';

async function errorOf(options: unknown): Promise<unknown> {
  try {
    await Test.createTestingModule({ imports: [ZkModule.forRoot(options as ZkModuleOptions)] })
      .setLogger(silent)
      .compile();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('ZkModule rejects at startup, and the error names the option and its value,', () => {
  const withServer = (options: object) => ({ connectString, ...options });
  const sasl = { mechanism: 'DIGEST-MD5', user: 'u', password: 'p' };
  it.each<[object, RegExp]>([
    [
      { connectString: '' },
      /connectString of the ZkModule connection "default" is "".*environment variable/,
    ],
    [
      { connectString: undefined, name: 'audit' },
      /connectString of the ZkModule connection "audit" is undefined/,
    ],
    [{}, /connectString.*undefined/],
    [{ embedded: false }, /connectString.*undefined/],
    [{ embedded: 'yes' }, /embedded.*"yes"/],
    [{ embedded: true, tls: { passphrase: 'geheim' } }, /tls.*embedded/],
    [{ embedded: true, sasl }, /sasl.*embedded/],
    [withServer({ transport: 'udp' }), /transport.*"udp"/],
    [withServer({ transport: 'native', tls: {} }), /transport.*'wire' with tls/],
    [withServer({ sessionTimeout: -1 }), /sessionTimeout.*-1/],
    [withServer({ sesionTimeout: 1 }), /sesionTimeout/],
    [withServer({ warnAfter: 5 }), /warnAfter.*5/],
    [withServer({ warnAfter: { waits: 5 } }), /unknown option waits in warnAfter/],
    [withServer({ warnAfter: { wait: 0 } }), /warnAfter\.wait.*0/],
    [withServer({ warnAfter: { hold: '5' } }), /warnAfter\.hold.*"5"/],
    [withServer({ logLeases: 'debug' }), /logLeases.*"debug"/],
    [withServer({ namespace: 'a\0b' }), /namespace/],
    [withServer({ defaults: { wait: -5 } }), /defaults\.wait.*-5/],
    [withServer({ defaults: { holdAtMost: 0 } }), /defaults\.holdAtMost.*0/],
    [withServer({ defaults: { details: { text: 5 } } }), /defaults\.details\.text.*5/],
    [
      // It belongs to single calls.
      withServer({ defaults: { holdAtLeast: 5 } }),
      /holdAtLeast.*wait, holdAtMost, fairness, linger, details/,
    ],
    [withServer({ defaults: { wiat: 5 } }), /unknown option wiat in defaults/],
    [withServer({ lazyConnection: 'no' }), /lazyConnection.*"no"/],
    [withServer({ shutdownTimeout: Infinity }), /shutdownTimeout.*Infinity/],
    [withServer({ mapError: 409 }), /mapError.*409/],
    [withServer({ elections: 'job' }), /elections.*list.*"job"/],
    [withServer({ elections: ['job', ''] }), /elections\[1\].*""/],
    [withServer({ elections: ['a\0b'] }), /elections\[0\]/],
    [withServer({ elections: [5] }), /elections\[0\].*5/],
    [withServer({ elections: [{ id: 'x' }] }), /elections\[0\]\.election.*undefined/],
    [
      withServer({ elections: [{ election: 'job', ids: 'x' }] }),
      /unknown option ids in elections\[0\]: did you mean id/,
    ],
    [withServer({ elections: [{ election: 'job', id: '' }] }), /elections\[0\]\.id.*non-empty.*""/],
    [
      withServer({ elections: [{ election: 'job', path: null }] }),
      /elections\[0\]\.path.*znode path.*null/,
    ],
    [withServer({ participantId: '' }), /participantId.*""/],
    [withServer({ name: '' }), /name.*""/],
  ])('%j', async (options, message) => {
    const error = await errorOf(options).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BadOptionError);
    expect((error as Error).message).toMatch(message);
    expect(inspect(error, { depth: 9 })).not.toContain('geheim');
  });

  it('an unknown option, and the error names the known ones, or suggests the right one', async () => {
    const message = (await errorOf({ connectString, servers: 'zk1' })) as Error;
    expect(String(message)).toMatch(
      /unknown option servers in.*connectString.*retry.*defaults.*embedded.*lazyConnection.*shutdownTimeout.*mapError.*name.*isGlobal/,
    );
    expect(String(await errorOf({ conectString: 'zk1' }))).toContain('did you mean connectString?');
    const imports = [
      ZkModule.forRootAsync({ useFactory: () => ({ connectString, name: 'x' }) as never }),
    ];
    await expect(Test.createTestingModule({ imports }).setLogger(silent).compile()).rejects.toThrow(
      /unknown option name in.*defaults/,
    );
  });

  it('options that are not an object', async () => {
    expect(() => ZkModule.forRoot(undefined as never)).toThrow(
      /forRoot.*\{ embedded: true \}.*undefined/,
    );
    expect(() => ZkModule.forRootAsync({})).toThrow(/useFactory, useClass and useExisting/);
    expect(() => ZkModule.forRoot({ connectString, isGlobal: 'false' } as never)).toThrow(
      /isGlobal.*"false"/,
    );
    expect(() =>
      ZkModule.forRootAsync({ useFactory: () => ({ connectString }), isGlobl: true } as never),
    ).toThrow(/isGlobl/);
    const imports = [ZkModule.forRootAsync({ useFactory: () => undefined as never })];
    await expect(Test.createTestingModule({ imports }).setLogger(silent).compile()).rejects.toThrow(
      /options.*undefined/,
    );
  });

  it('two connections with the same name in one application', async () => {
    const connect = () => ZkModule.forRoot({ connectString, lazyConnection: true });
    await expect(
      Test.createTestingModule({ imports: [connect(), connect()] })
        .setLogger(silent)
        .compile(),
    ).rejects.toThrow(/2 ZkModule connections.*"default"/);
  });
});

describe('ZkModule', () => {
  const lazy = { connectString, lazyConnection: true };

  it('has one connection if one module object is imported twice', async () => {
    const connection = ZkModule.forRoot({ ...lazy, isGlobal: false });
    @Module({ imports: [connection] })
    class Orders {}
    @Module({ imports: [connection] })
    class Goods {}
    const module = await Test.createTestingModule({ imports: [Orders, Goods] }).compile();
    expect(module.select(Orders).get(LockService, { strict: false })).toBe(
      module.select(Goods).get(LockService, { strict: false }),
    );
    await module.close();
  });

  it('injects the default connection by class and by token', async () => {
    const module = await Test.createTestingModule({ imports: [ZkModule.forRoot(lazy)] }).compile();
    expect(module.get(ZkClient)).toBe(module.get(getZkClientToken()));
    expect(module.get(LockService)).toBe(module.get(getLockServiceToken('default')));
    expect(module.get(LeaderService)).toBe(module.get(getLeaderServiceToken()));
    expect(module.get(SemaphoreService)).toBe(module.get(getSemaphoreServiceToken()));
    await module.close();
    // It can be closed again, and without having been started.
    await module.close();
  });

  it('has embedded and connectString as a toggle, and stops the server, also after a failure', async () => {
    const stop = vi.spyOn(EmbeddedZooKeeper.prototype, 'stop');
    const start = async (options: ZkModuleOptions) => {
      const logger = new ConsoleLogger();
      const lines: unknown[] = [];
      for (const level of ['log', 'warn'] as const) {
        logger[level] = (line: unknown) => void lines.push(line);
      }
      const module = await Test.createTestingModule({ imports: [ZkModule.forRoot(options)] })
        .setLogger(logger)
        .compile();
      if (!options.lazyConnection) {
        await module.init();
        expect(await module.get(LockService).withLock('embedded', () => 'locked')).toBe('locked');
      }
      await module.close();
      return lines.filter((line) => String(line).startsWith('embedded ZooKeeper'));
    };
    expect(await start({ embedded: true })).toEqual([
      expect.stringMatching(
        /embedded ZooKeeper on 127\.0\.0\.1:\d+, for development.*ensemble in production$/,
      ),
    ]);
    expect(await start({ ...lazy, embedded: true })).toEqual([
      expect.stringMatching(/ensemble in production; connectString is not used$/),
    ]);
    expect(await start({ ...lazy, embedded: false })).toEqual([]);
    expect(stop).toHaveBeenCalledTimes(2);
    expect(await errorOf({ embedded: true, namespace: 'a//b' })).toBeInstanceOf(BadOptionError);
    expect(stop).toHaveBeenCalledTimes(3);
    stop.mockRestore();
  });

  it('takes options that are undefined for left out', async () => {
    const options = Object.fromEntries(Object.keys(ZK_RULES).map((name) => [name, undefined]));
    const connection = ZkModule.forRoot({ ...options, ...lazy, name: undefined });
    const module = await Test.createTestingModule({ imports: [connection] }).compile();
    expect(module.get(LockService).defaultWait).toBe(Infinity);
    await module.close();
  });

  it('is global by default', async () => {
    @Injectable()
    class Orders {
      constructor(readonly locks: LockService) {}
    }
    @Module({ providers: [Orders] })
    class OrdersModule {}
    const compile = (isGlobal?: boolean) =>
      Test.createTestingModule({ imports: [ZkModule.forRoot({ ...lazy, isGlobal }), OrdersModule] })
        .setLogger(silent)
        .compile();

    const module = await compile();
    expect(module.get(Orders).locks).toBeInstanceOf(LockService);
    await module.close();
    await expect(compile(false)).rejects.toThrow(/LockService/);
  });
});
