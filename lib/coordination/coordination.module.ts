import { type DynamicModule, Module, type OnModuleDestroy, type Provider } from '@nestjs/common';
import type { ZkClient } from '../client/index.js';
import { checkBoolean, checkOptions } from '../client/validation.js';
import { connectionName, getZkClientToken, loggerOf } from '../services/tokens.js';
import { CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
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

const OPTIONS = ['connection', 'isGlobal'] satisfies (keyof CoordinationModuleOptions)[];

/** Closes the recipes of a service in the earliest phase of the shutdown, before ZkModule closes the client. */
class CoordinationShutdown implements OnModuleDestroy {
  constructor(private readonly service: CoordinationService) {}

  onModuleDestroy(): Promise<void> {
    return this.service.closeAll();
  }
}

/**
 * Provides the coordination recipes over a connection of `ZkModule`, which must be global or imported by the module that
 * imports this one.
 *
 * @publicApi
 */
@Module({})
export class CoordinationModule {
  /** @throws BadOptionError for an unknown option or an unusable value */
  static forRoot(options: CoordinationModuleOptions = {}): DynamicModule {
    checkOptions(options, OPTIONS);
    const { connection, isGlobal = true } = options;
    checkBoolean(isGlobal, 'isGlobal');
    const token = getCoordinationServiceToken(connection);
    const own: Provider[] = [
      {
        provide: token,
        inject: [getZkClientToken(connection)],
        useFactory: (client: ZkClient) =>
          new CoordinationService(client, loggerOf(connectionName(connection))),
      },
      {
        provide: CoordinationShutdown,
        inject: [token],
        useFactory: (service: CoordinationService) => new CoordinationShutdown(service),
      },
    ];
    return {
      module: CoordinationModule,
      global: isGlobal,
      // Nest reads these two when it scans the modules. All decorators of the application have been applied then.
      get providers() {
        return [...own, ...valueProviders(connection)];
      },
      get exports() {
        return [token, ...valueTokens(connection)];
      },
    };
  }
}
