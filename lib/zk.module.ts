import {
  ConfigurableModuleBuilder,
  type DynamicModule,
  Module,
  type Provider,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { BadOptionError } from './client/errors.js';
import { Elections } from './decorators/coordination.explorer.js';
import { checkMethods } from './decorators/coordination.explorer.js';
import { checkKnownOptions } from './services/service-options.js';
import { ZkConnection } from './zk.connection.js';
import { type Ensemble, ZK_ENSEMBLE } from './zk.tokens.js';
import {
  settingsOf,
  ZK_OPTIONS,
  type ZkModuleAsyncOptions,
  type ZkModuleExtras,
  type ZkModuleOptions,
} from './zk.options.js';
import {
  connectionName,
  getErrorMappingToken,
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
} from './zk.tokens.js';

const EXTRAS = ['name', 'isGlobal'] satisfies (keyof ZkModuleExtras)[];

const ASYNC_OPTIONS = [
  'imports',
  'inject',
  'useFactory',
  'useClass',
  'useExisting',
  'provideInjectionTokensFrom',
  ...EXTRAS,
] satisfies (keyof ZkModuleAsyncOptions)[];

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } =
  new ConfigurableModuleBuilder<ZkModuleOptions>({ moduleName: 'Zk' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createZkOptions')
    .setExtras<ZkModuleExtras>({ name: undefined, isGlobal: undefined }, withConnection)
    .build();

/**
 * A connection to ZooKeeper and the services on it.
 *
 * @publicApi
 */
@Module({})
export class ZkModule extends ConfigurableModuleClass {
  /**
   * A connection by options that are known now. Each further one of an application needs a `name`.
   *
   * @throws BadOptionError for an unknown option
   */
  static override forRoot(options: ZkModuleOptions & ZkModuleExtras): DynamicModule {
    checkKnownOptions('options of ZkModule.forRoot', options, [...ZK_OPTIONS, ...EXTRAS]);
    return super.forRoot(options);
  }

  /**
   * A connection by options that another provider makes.
   *
   * @throws BadOptionError for an unknown option, or without exactly one of `useFactory`, `useClass` and
   *   `useExisting`
   */
  static override forRootAsync(options: ZkModuleAsyncOptions): DynamicModule {
    checkKnownOptions('options of ZkModule.forRootAsync', options, ASYNC_OPTIONS);
    const { useFactory, useClass, useExisting } = options;
    if ([useFactory, useClass, useExisting].filter(Boolean).length !== 1) {
      throw new BadOptionError(
        'options of ZkModule.forRootAsync',
        options,
        'an object with one of useFactory, useClass and useExisting',
      );
    }
    return super.forRootAsync(options);
  }
}

function withConnection(definition: DynamicModule, extras: ZkModuleExtras): DynamicModule {
  const name = connectionName(extras.name);
  const { isGlobal = true } = extras;
  if (typeof isGlobal !== 'boolean') {
    throw new BadOptionError('isGlobal', isGlobal, 'true or false');
  }
  return {
    ...definition,
    global: isGlobal,
    imports: [...(definition.imports ?? []), DiscoveryModule],
    providers: [...(definition.providers ?? []), ...providersOf(name)],
    exports: [
      getZkClientToken(name),
      getLockServiceToken(name),
      getSemaphoreServiceToken(name),
      getLeaderServiceToken(name),
    ],
  };
}

function providersOf(name: string): Provider[] {
  return [
    { provide: ZK_ENSEMBLE, useValue: undefined },
    {
      provide: ZkConnection,
      inject: [
        MODULE_OPTIONS_TOKEN,
        ModulesContainer,
        DiscoveryService,
        MetadataScanner,
        ZK_ENSEMBLE,
      ],
      useFactory: (
        options: ZkModuleOptions,
        modules: ModulesContainer,
        discovery: DiscoveryService,
        scanner: MetadataScanner,
        ensemble: Ensemble | undefined,
      ) => {
        checkOnlyOne(name, modules);
        const settings = settingsOf(options);
        const { wait = Infinity } = settings.defaults;
        return ZkConnection.create(
          name,
          settings,
          {
            check: () => checkMethods(name, wait, discovery, scanner),
            elections: () => new Elections(name, discovery, scanner),
          },
          ensemble,
        );
      },
    },
    {
      provide: getZkClientToken(name),
      inject: [ZkConnection],
      useFactory: ({ client }: ZkConnection) => client,
    },
    {
      provide: getLockServiceToken(name),
      inject: [ZkConnection],
      useFactory: ({ locks }: ZkConnection) => locks,
    },
    {
      provide: getSemaphoreServiceToken(name),
      inject: [ZkConnection],
      useFactory: ({ semaphores }: ZkConnection) => semaphores,
    },
    {
      provide: getLeaderServiceToken(name),
      inject: [ZkConnection],
      useFactory: ({ leaders }: ZkConnection) => leaders,
    },
    {
      provide: getErrorMappingToken(name),
      inject: [ZkConnection],
      useFactory: ({ mapError }: ZkConnection) => mapError,
    },
  ];
}

function checkOnlyOne(name: string, modules: ModulesContainer): void {
  const token = getLockServiceToken(name);
  const same = [...modules.values()].filter(
    ({ metatype, providers }) => metatype === ZkModule && providers.has(token),
  );
  if (same.length > 1) {
    throw new BadOptionError(
      'name',
      name,
      `unique: ${same.length} ZkModule connections of this application have the same (call forRoot once, in the root module, or name each connection)`,
    );
  }
}
