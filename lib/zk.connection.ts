import {
  type BeforeApplicationShutdown,
  Logger,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { ShuttingDownError, ZkClient, type ZkClientOptions } from './client/index.js';
import type { ErrorMapping } from './decorators/error-mapping.js';
import type { EmbeddedZooKeeper } from './embedded/index.js';
import { LockService } from './services/lock.service.js';
import { SemaphoreService } from './services/semaphore.service.js';
import { Turnstile } from './services/turnstile.js';
import { type ZkSettings } from './zk.options.js';
import { DEFAULT_CONNECTION } from './zk.tokens.js';

/** One connection of an application, from its start to its shutdown. */
export class ZkConnection
  implements OnModuleInit, BeforeApplicationShutdown, OnApplicationShutdown
{
  readonly client: ZkClient;
  readonly locks: LockService;
  readonly semaphores: SemaphoreService;
  private readonly turnstile = new Turnstile();
  private readonly logger: Logger;
  private stopped: Promise<void> | undefined;

  private constructor(
    name: string,
    private readonly settings: ZkSettings,
    connectString: string | undefined,
    private readonly server: EmbeddedZooKeeper | undefined,
    /** Finds at start-up what a decorator cannot see when it is applied. */
    private readonly checkDecorators: () => void,
  ) {
    this.logger = new Logger(name === DEFAULT_CONNECTION ? 'ZkModule' : `ZkModule(${name})`);
    this.client = new ZkClient({ ...settings.client, connectString } as ZkClientOptions);
    this.locks = new LockService(this.client, settings.defaults, this.turnstile);
    this.semaphores = new SemaphoreService(this.client, settings.defaults, this.turnstile);
  }

  static async create(
    name: string,
    settings: ZkSettings,
    checkDecorators: () => void,
  ): Promise<ZkConnection> {
    const server = settings.embedded && (await startServer(settings.embedded));
    try {
      const connectString = server?.connectString ?? settings.client.connectString;
      const connection = new ZkConnection(name, settings, connectString, server, checkDecorators);
      connection.logChanges();
      return connection;
    } catch (error) {
      await server?.stop();
      throw error;
    }
  }

  async onModuleInit(): Promise<void> {
    try {
      this.checkDecorators();
      if (this.settings.lazyConnection) this.connectInBackground();
      else await this.client.connect();
    } catch (error) {
      // Nest may end here without a shutdown: what runs on would keep the process alive.
      await this.stop();
      throw error;
    }
  }

  get mapError(): ErrorMapping {
    return this.settings.mapError ?? (() => undefined);
  }

  /** Nest closes its server before the next hook: a request that waits for a lock would hold that up. */
  beforeApplicationShutdown(): void {
    this.turnstile.refuse();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.stop();
  }

  private connectInBackground(): void {
    this.client.connect().catch((error: unknown) => {
      if (error instanceof ShuttingDownError) return;
      const said = error instanceof Error ? error.message : String(error);
      this.logger.warn(`not connected yet, the next lock tries again: ${said}`);
    });
  }

  private stop(): Promise<void> {
    this.stopped ??= this.release();
    return this.stopped;
  }

  private async release(): Promise<void> {
    const overdue = await this.turnstile.drain(this.settings.shutdownTimeout);
    if (overdue.length > 0) {
      this.logger.warn(
        `gave back ${overdue.length} lease(s) still held ${this.settings.shutdownTimeout} ms after the shutdown began: ${overdue.slice(0, 10).join(', ')}`,
      );
    }
    await this.client.close();
    await this.server?.stop();
  }

  private logChanges(): void {
    if (this.server) {
      this.logger.warn(
        `embedded ZooKeeper on ${this.server.connectString}, for development and tests: production runs on an ensemble`,
      );
    }
    this.client.onState(({ state, sessionId, reason }) => {
      const session = sessionId ? ` session 0x${sessionId}` : '';
      if (state === 'SUSPENDED' || state === 'LOST') {
        this.logger.warn(`${state}${session}${reason ? `: ${reason.message}` : ''}`);
      } else {
        this.logger.log(`${state}${session}`);
      }
    });
  }
}

async function startServer(
  options: NonNullable<ZkSettings['embedded']>,
): Promise<EmbeddedZooKeeper> {
  const { EmbeddedZooKeeper } = await import('./embedded/index.js');
  return EmbeddedZooKeeper.start(options);
}
