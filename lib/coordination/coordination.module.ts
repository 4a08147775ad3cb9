import {
  type DynamicModule,
  Module,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type Provider,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import {
  BadOptionError,
  BOOLEAN,
  checkOptions,
  type Rules,
  UNCHECKED,
  type ZkClient,
} from '../client/index.js';
import { MisuseError } from '../decorators/requirement.js';
import {
  connectionName,
  DEFAULT_CONNECTION,
  getZkClientToken,
  loggerOf,
} from '../services/tokens.js';
import { startBackgroundMethods } from './background-method.js';
import { CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
import { getPartitionServiceToken, PartitionService } from './partition.service.js';
import { valueProviders, valueTokens } from './zk-value.decorator.js';

/**
 * Options of `CoordinationModule.forRoot`.
 *
 * @publicApi
 */
export interface CoordinationModuleOptions {
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
  /** Whether other modules get the services without importing this module. Default true. */
  isGlobal?: boolean | undefined;
}

const RULES: Rules<CoordinationModuleOptions> = { connection: UNCHECKED, isGlobal: BOOLEAN };

/**
 * Starts the recipes of `@Partitioned` and `@QueueConsumer` when all modules are ready. Closes the recipes of the services
 * in the earliest phase of the shutdown, before ZkModule closes the client.
 */
class CoordinationLifecycle implements OnApplicationBootstrap, OnModuleDestroy {
  constructor(
    private readonly connection: string | undefined,
    private readonly service: CoordinationService,
    private readonly partitions: PartitionService,
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly modules: ModulesContainer,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    try {
      checkUnique(this.connection, this.modules);
      const services = { coordination: this.service, partitions: this.partitions };
      startBackgroundMethods(services, this.connection, this.discovery, this.scanner);
    } catch (error) {
      // Nest may end a failed start without a shutdown. An open client would keep the process alive.
      await this.onModuleDestroy();
      await this.service.client.close();
      throw error;
    }
  }

  async onModuleDestroy(): Promise<void> {
    await Promise.all([this.partitions.closeAll(), this.service.closeAll()]);
  }
}

/**
 * Provides the coordination recipes over a connection of `ZkModule`, which must be global. Import it once for each connection,
 * in the root module.
 *
 * @publicApi
 */
@Module({})
export class CoordinationModule {
  /** @throws BadOptionError for an unknown option or an unusable value, and at the start for a second module of a connection */
  static forRoot(options: CoordinationModuleOptions = {}): DynamicModule {
    checkOptions(options, RULES);
    const { connection, isGlobal = true } = options;
    const name = connectionName(connection, 'connection');
    const token = getCoordinationServiceToken(connection);
    const partitions = getPartitionServiceToken(connection);
    const client = { token: getZkClientToken(connection), optional: true };
    const own: Provider[] = [
      {
        provide: token,
        inject: [client],
        useFactory: (found?: ZkClient) =>
          new CoordinationService(checkFound(found, name), loggerOf(name)),
      },
      {
        provide: partitions,
        inject: [client],
        useFactory: (found?: ZkClient) =>
          new PartitionService(checkFound(found, name), loggerOf(name)),
      },
      {
        provide: CoordinationLifecycle,
        inject: [token, partitions, DiscoveryService, MetadataScanner, ModulesContainer],
        useFactory: (
          ...parts: [
            CoordinationService,
            PartitionService,
            DiscoveryService,
            MetadataScanner,
            ModulesContainer,
          ]
        ) => new CoordinationLifecycle(connection, ...parts),
      },
    ];
    return {
      module: CoordinationModule,
      global: isGlobal,
      imports: [DiscoveryModule],
      // Getters, because `@ZkValue` decorators register their values while modules are loaded. Nest reads `providers` and
      // `exports` when it scans the modules, after all classes except those of the LazyModuleLoader were loaded.
      get providers() {
        return [...own, ...valueProviders(connection)];
      },
      get exports() {
        return [token, partitions, ...valueTokens(connection)];
      },
    };
  }
}

/** @throws BadOptionError for a second module, which would start each background method once more */
function checkUnique(connection: string | undefined, modules: ModulesContainer): void {
  const token = getCoordinationServiceToken(connection);
  const same = [...modules.values()].filter(
    ({ metatype, providers }) => metatype === CoordinationModule && providers.has(token),
  );
  if (same.length === 1) return;
  throw new BadOptionError(
    'connection',
    connectionName(connection),
    `unique: ${same.length} CoordinationModules of this application have this connection (call forRoot once for each connection, in the root module, without isGlobal: false)`,
  );
}

/** @throws MisuseError if Nest has found no client */
function checkFound(client: ZkClient | undefined, name: string): ZkClient {
  if (client) return client;
  const options = name === DEFAULT_CONNECTION ? '' : `, name: ${JSON.stringify(name)}`;
  throw new MisuseError(
    `CoordinationModule found no ZkModule: add ZkModule.forRoot({ connectString${options} }) to the imports of your root module, without isGlobal: false`,
  );
}
