import {
  ConfigurableModuleBuilder,
  type DynamicModule,
  type InjectionToken,
  Module,
  type Provider,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { BadOptionError } from './client/errors.js';
import {
  BOOLEAN,
  checkOptions,
  type Rules,
  UNCHECKED,
  uncheckedRules,
} from './client/validation.js';
import { CoordinationExplorer } from './decorators/coordination.explorer.js';
import {
  connectionName,
  getErrorMappingToken,
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
} from './services/tokens.js';
import { ZkConnection } from './zk.connection.js';
import { type Ensemble, ZK_ENSEMBLE } from './zk.ensemble.js';
import {
  settingsOf,
  ZK_RULES,
  type ZkModuleAsyncOptions,
  type ZkModuleExtras,
  type ZkModuleOptions,
} from './zk.options.js';

const EXTRA_RULES: Rules<ZkModuleExtras> = { name: UNCHECKED, isGlobal: BOOLEAN };

const ASYNC_RULES: Rules<ZkModuleAsyncOptions> = {
  ...uncheckedRules('imports', 'inject', 'useFactory', 'useClass', 'useExisting'),
  provideInjectionTokensFrom: UNCHECKED,
  ...EXTRA_RULES,
};

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } =
  new ConfigurableModuleBuilder<ZkModuleOptions>({ moduleName: 'Zk' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createZkOptions')
    .setExtras<ZkModuleExtras>({ name: undefined, isGlobal: undefined }, withConnection)
    .build();

/**
 * Provides a connection to ZooKeeper and its services.
 *
 * @publicApi
 */
@Module({})
export class ZkModule extends ConfigurableModuleClass {
  /**
   * Creates a connection from options that are known now. Each further connection of an application needs a `name`.
   *
   * @throws BadOptionError for an unknown option
   */
  static override forRoot(options: ZkModuleOptions & ZkModuleExtras): DynamicModule {
    const what = 'options of ZkModule.forRoot';
    const expected = '{ connectString } or { embedded: true }';
    if (options === undefined) throw new BadOptionError(what, options, expected);
    checkOptions(options, { ...ZK_RULES, ...EXTRA_RULES }, what);
    return super.forRoot(options);
  }

  /**
   * Creates a connection from options that another provider creates.
   *
   * @throws BadOptionError for an unknown option, and unless there is exactly one of `useFactory`,
   *   `useClass` and `useExisting`
   */
  static override forRootAsync(options: ZkModuleAsyncOptions): DynamicModule {
    checkOptions(options, ASYNC_RULES, 'options of ZkModule.forRootAsync');
    const { useFactory, useClass, useExisting, provideInjectionTokensFrom } = options;
    const given = [useFactory, useClass, useExisting].filter(Boolean).length;
    if (given !== 1) {
      const message = `pass exactly one of useFactory, useClass and useExisting to ZkModule.forRootAsync; ${given} were given`;
      throw new BadOptionError('options of ZkModule.forRootAsync', options, { message });
    }
    const module = super.forRootAsync(options);
    if (!useClass || !provideInjectionTokensFrom) return module;
    // Nest adds them for `inject` only.
    return { ...module, providers: [...(module.providers ?? []), ...provideInjectionTokensFrom] };
  }
}

function withConnection(definition: DynamicModule, extras: ZkModuleExtras): DynamicModule {
  const name = connectionName(extras.name);
  const { isGlobal = true } = extras;
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
  const fromConnection = (
    provide: InjectionToken,
    useFactory: (connection: ZkConnection) => unknown,
  ): Provider => ({ provide, inject: [ZkConnection], useFactory });
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
        checkUnique(name, modules);
        const explorer = new CoordinationExplorer(name, discovery, scanner);
        return ZkConnection.create(name, settingsOf(options), explorer, modules, ensemble);
      },
    },
    fromConnection(getZkClientToken(name), ({ client }) => client),
    fromConnection(getLockServiceToken(name), ({ locks }) => locks),
    fromConnection(getSemaphoreServiceToken(name), ({ semaphores }) => semaphores),
    fromConnection(getLeaderServiceToken(name), ({ leaders }) => leaders),
    fromConnection(getErrorMappingToken(name), ({ mapError }) => mapError),
  ];
}

function checkUnique(name: string, modules: ModulesContainer): void {
  const token = getLockServiceToken(name);
  const sameName = [...modules.values()].filter(
    ({ metatype, providers }) => metatype === ZkModule && providers.has(token),
  );
  if (sameName.length > 1) {
    throw new BadOptionError(
      'name',
      name,
      `unique: ${sameName.length} ZkModule connections of this application have this name (call forRoot once, in the root module, or give each connection a name)`,
    );
  }
}
