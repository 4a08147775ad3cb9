import {
  type BeforeApplicationShutdown,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { ShuttingDownError, ZkClient, type ZkClientOptions } from './client/index.js';
import type { Elections } from './decorators/coordination.explorer.js';
import type { ErrorMapping } from './decorators/zk-exception.filter.js';
import type { EmbeddedZooKeeper } from './embedded/index.js';
import { onDeadlock } from './recipes/index.js';
import { LeaderService } from './services/leader.service.js';
import { LockService } from './services/lock.service.js';
import { Overdue } from './services/overdue-monitor.js';
import { SemaphoreService } from './services/semaphore.service.js';
import { Turnstile } from './services/lease-tracker.js';
import type { Ensemble } from './zk.tokens.js';
import { logLeaders, logLeases, logStates } from './zk.log.js';
import { type ZkSettings } from './zk.options.js';
import { DEFAULT_CONNECTION } from './zk.tokens.js';

/** What the application's decorators say that concerns one connection. */
interface DecoratedMethods {
  /** Finds what a decorator cannot see when it is applied. */
  check(): void;
  elections(): Elections;
}

/** One connection of an application, from its start to its shutdown. */
export class ZkConnection
  implements
    OnModuleInit,
    OnApplicationBootstrap,
    OnModuleDestroy,
    BeforeApplicationShutdown,
    OnApplicationShutdown
{
  readonly client: ZkClient;
  readonly locks: LockService;
  readonly semaphores: SemaphoreService;
  readonly leaders: LeaderService;
  private readonly turnstile = new Turnstile();
  private readonly logger: Logger;
  private stopped: Promise<void> | undefined;
  /** Of a shutdown, from its first phase on. */
  private deadline: number | undefined;
  private endLog: (() => void)[] = [];

  private constructor(
    name: string,
    private readonly settings: ZkSettings,
    ensemble: Ensemble,
    private readonly server: EmbeddedZooKeeper | undefined,
    private readonly decorators: DecoratedMethods,
  ) {
    this.logger = new Logger(name === DEFAULT_CONNECTION ? 'ZkModule' : `ZkModule(${name})`);
    const { connectString, connect } = ensemble;
    this.client = new ZkClient({ ...settings.client, connectString }, connect);
    this.locks = new LockService(this.client, settings.defaults, this.turnstile);
    this.semaphores = new SemaphoreService(this.client, settings.defaults, this.turnstile);
    this.leaders = new LeaderService(
      this.client,
      settings.elections,
      settings.participantId,
      (election, error) => {
        const stack = error instanceof Error ? error.stack : undefined;
        this.logger.error(`election ${JSON.stringify(election)}: ${String(error)}`, stack);
      },
    );
  }

  static async create(
    name: string,
    settings: ZkSettings,
    decorators: DecoratedMethods,
    given: Ensemble | undefined,
  ): Promise<ZkConnection> {
    const wanted = given ? undefined : settings.embedded;
    const server = wanted && (await startServer(wanted));
    try {
      const ensemble = given ?? server ?? (settings.client as ZkClientOptions);
      const connection = new ZkConnection(name, settings, ensemble, server, decorators);
      connection.logChanges();
      return connection;
    } catch (error) {
      await server?.stop();
      throw error;
    }
  }

  async onModuleInit(): Promise<void> {
    try {
      this.decorators.check();
      if (this.settings.lazyConnection) this.connectInBackground();
      else await this.client.connect();
    } catch (error) {
      // Nest may end here without a shutdown: what runs on would keep the process alive.
      await this.stop();
      throw error;
    }
  }

  /** Not before: whoever is elected may rely on what all modules made ready in `onModuleInit`. */
  async onApplicationBootstrap(): Promise<void> {
    try {
      for (const election of this.settings.elections.keys()) this.leaders.isLeader(election);
      this.decorators.elections().join(this.leaders, this.logger);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /**
   * The earliest phase of a shutdown: another instance leads before servers and scheduled jobs of this
   * one are torn down. Nest calls a global module last in it, after the same hook of all others.
   */
  async onModuleDestroy(): Promise<void> {
    await this.leaders.resignAll(this.timeLeft());
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
    await this.leaders.resignAll(this.timeLeft());
    const overdue = await this.turnstile.drain(this.timeLeft());
    if (overdue.length > 0) {
      this.logger.warn(
        `gave back ${overdue.length} lease(s) still held ${this.settings.shutdownTimeout} ms after the shutdown began: ${overdue.slice(0, 10).join(', ')}`,
      );
    }
    await this.client.close();
    for (const end of this.endLog) end();
    await this.server?.stop();
  }

  /** Milliseconds of the shutdown's patience, which begins with the first call. */
  private timeLeft(): number {
    const now = performance.now();
    this.deadline ??= now + this.settings.shutdownTimeout;
    return Math.max(0, this.deadline - now);
  }

  private logChanges(): void {
    if (this.server) {
      this.logger.warn(
        `embedded ZooKeeper on ${this.server.connectString}, for development and tests: production runs on an ensemble`,
      );
    }
    const { client, logger, turnstile } = this;
    const { warnAfter, logLeases: leasesToo } = this.settings;
    const overdue = new Overdue(turnstile, warnAfter, (line) => logger.warn(line));
    this.endLog = [
      () => overdue.stop(),
      logStates(client, logger),
      logLeaders(client, logger),
      onDeadlock(({ message }) => logger.warn(message), { client }),
      ...(leasesToo ? [logLeases(client, logger)] : []),
    ];
  }
}

async function startServer(
  options: NonNullable<ZkSettings['embedded']>,
): Promise<EmbeddedZooKeeper> {
  const { EmbeddedZooKeeper } = await import('./embedded/index.js');
  return EmbeddedZooKeeper.start(options);
}
