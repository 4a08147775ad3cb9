import { Get, Injectable, Sse } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { MessagePattern } from '@nestjs/microservices';
import { BadOptionError, LeaderOnly, OnElected, OnResigned } from 'nestjs-zookeeper';
import { of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { silent, startUnconnected } from '../../support/nest-apps.js';

interface Metadata {
  providers?: unknown[];
  controllers?: unknown[];
}

const compile = (metadata: Metadata) =>
  Test.createTestingModule(metadata as object)
    .setLogger(silent)
    .compile();

/** Applies a decorator to `Jobs.run`. */
function decorate(decorator: MethodDecorator): void {
  class Jobs {
    async run(): Promise<void> {}
  }
  const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run')!;
  decorator(Jobs.prototype, 'run', descriptor);
}

describe('@LeaderOnly', () => {
  it('rejects, without running the method, on an object that Nest did not create', async () => {
    let ran = false;
    @Injectable()
    class Jobs {
      @LeaderOnly('job')
      async run(): Promise<void> {
        ran = true;
      }
    }
    await expect(new Jobs().run()).rejects.toThrow(
      /Jobs\.run has a @LeaderOnly.*Nest did not create.*LeaderService/s,
    );
    const app = await startUnconnected({ providers: [{ provide: Jobs, useValue: new Jobs() }] });
    await expect(app.get(Jobs).run()).rejects.toThrow(/Jobs\.run.*useValue/s);
    expect(ran).toBe(false);
    await app.close();
  });

  it.each<[unknown, RegExp]>([
    [undefined, /options of @LeaderOnly on Jobs\.run.*undefined/],
    ['', /election of @LeaderOnly on Jobs\.run.*""/],
    ['a\0', /election.*Jobs\.run/],
    [{ otherwise: 'throw' }, /election.*Jobs\.run.*undefined/],
    [
      { election: 'e', otherwise: 'forward' },
      /otherwise of @LeaderOnly on Jobs\.run.*'skip', 'throw' or a function.*"forward"/,
    ],
    [{ election: 'e', onLost: 'retry' }, /onLost.*Jobs\.run.*"retry"/],
    [{ election: 'e', connection: '' }, /connection.*Jobs\.run.*""/],
    [{ election: 'e', wait: 5 }, /unknown option wait in.*Jobs\.run/],
  ])('rejects %j, and the error names the method', (options, message) => {
    const attempt = () => decorate(LeaderOnly(options as string) as MethodDecorator);
    expect(attempt).toThrow(BadOptionError);
    expect(attempt).toThrow(message);
  });

  it("rejects otherwise: 'skip' on handlers of all kinds, at startup", async () => {
    class Http {
      @Get()
      @LeaderOnly({ election: 'job', otherwise: 'skip' })
      async run(): Promise<void> {}
    }
    class Events {
      @LeaderOnly({ election: 'job', otherwise: 'skip' })
      @Sse()
      run() {
        return of({ data: '' });
      }
    }
    class Rpc {
      @MessagePattern('run')
      @LeaderOnly({ election: 'job', otherwise: 'skip' })
      async run(): Promise<void> {}
    }
    for (const controller of [Http, Events, Rpc]) {
      await expect(startUnconnected({ controllers: [controller] })).rejects.toThrow(
        new RegExp(
          `${controller.name}\\.run has otherwise: 'skip'.*success although nothing was done`,
        ),
      );
    }
  });
});

describe('without ZkModule the application does not start, and the error says what to import:', () => {
  it.each([
    ['@LeaderOnly', LeaderOnly('job') as MethodDecorator],
    ['@OnElected', OnElected('job')],
    ['@OnResigned', OnResigned('job')],
  ])('%s', async (name, decorator) => {
    class Jobs {
      async run(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run')!;
    decorator(Jobs.prototype, 'run', descriptor);
    Object.defineProperty(Jobs.prototype, 'run', descriptor);
    Injectable()(Jobs);
    const message = new RegExp(
      `LeaderService for ${name}: add ZkModule\\.forRoot\\(\\{ connectString \\}\\) to the imports`,
    );
    await expect(compile({ providers: [Jobs] })).rejects.toThrow(message);
    await expect(compile({ controllers: [Jobs] })).rejects.toThrow(message);
  });

  it('for a named connection', async () => {
    @Injectable()
    class Jobs {
      @LeaderOnly({ election: 'job', connection: 'stock' })
      async run(): Promise<void> {}
    }
    await expect(startUnconnected({ providers: [Jobs] })).rejects.toThrow(
      /LeaderService for @LeaderOnly: add ZkModule\.forRoot\(.*name: "stock"/s,
    );
  });
});

describe.each([
  ['@OnElected', OnElected],
  ['@OnResigned', OnResigned],
])('%s rejects, and the error names the method,', (name, listener) => {
  it.each<[string, unknown[], RegExp]>([
    ['no election', [], /election of .* on Jobs\.run.*undefined/],
    ['an empty election', [''], /election of .* on Jobs\.run.*""/],
    ['an election with a NUL', ['a\0'], /election of .* on Jobs\.run/],
    ['options that are not an object', ['e', 'stock'], /options of .* on Jobs\.run.*"stock"/],
    ['an unknown option', ['e', { conection: 'x' }], /unknown option conection in.*Jobs\.run/],
    ['an empty connection', ['e', { connection: '' }], /connection of .* on Jobs\.run.*""/],
  ])('%s', (_, args, message) => {
    const attempt = () => decorate(listener(...(args as [string])));
    expect(attempt).toThrow(BadOptionError);
    expect(attempt).toThrow(message);
    expect(attempt).toThrow(name);
  });
});
