import {
  type BeforeApplicationShutdown,
  type Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import { foreignText } from './client/errors.js';
import { ConnectionError, ZkClient } from './client/index.js';
import { connectInBackground } from './client/zk-client.js';
import type { CoordinationExplorer } from './decorators/coordination.explorer.js';
import type { ErrorMapping } from './decorators/zk-exception.filter.js';
import type { EmbeddedZooKeeper } from './embedded/index.js';
import { onDeadlock } from './recipes/index.js';
import { LeaderService } from './services/leader.service.js';
import { LeaseTracker } from './services/lease-tracker.js';
import { LockService } from './services/lock.service.js';
import { OverdueMonitor } from './services/overdue-monitor.js';
import { SemaphoreService } from './services/semaphore.service.js';
import { loggerOf } from './services/tokens.js';
import type { Ensemble } from './zk.ensemble.js';
import {
  logDeadHolders,
  logFailedConnects,
  logFollows,
  logLeaders,
  logLeases,
  logRefusedDeletes,
  logStates,
} from './zk.log.js';
import { requireConnectString, type ZkSettings } from './zk.options.js';
import { checkShutdownHooks } from './zk.shutdown.js';

/** Milliseconds after which a shutdown names the keys of the leases that are still held in the log. */
const DRAIN_REMINDER = 1000;

/** One connection of an application, with its services, from the start of the application to its shutdown. */
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
  private readonly tracker = new LeaseTracker();
  private readonly logger: Logger;
  private stopped: Promise<void> | undefined;
  /** When `shutdownTimeout` ends; set by the first phase of the shutdown. */
  private deadline: number | undefined;
  private shutdownTimers: NodeJS.Timeout[] = [];
  private stopLogging: (() => void)[] = [];

  private constructor(
    private readonly name: string,
    private readonly settings: ZkSettings,
    private readonly ensemble: Ensemble,
    private readonly server: EmbeddedZooKeeper | undefined,
    private readonly explorer: CoordinationExplorer,
    private readonly modules: ModulesContainer,
  ) {
    this.logger = loggerOf(name);
    const { connectString, connect } = ensemble;
    this.client = new ZkClient({ ...settings.client, connectString }, connect);
    this.locks = new LockService(this.client, settings.defaults, this.tracker);
    this.semaphores = new SemaphoreService(this.client, settings.defaults, this.tracker);
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

  /** @param ensemble replaces the servers that the settings name */
  static async create(
    name: string,
    settings: ZkSettings,
    explorer: CoordinationExplorer,
    modules: ModulesContainer,
    ensemble: Ensemble | undefined,
  ): Promise<ZkConnection> {
    const server = ensemble ? undefined : await startServer(settings);
    try {
      const target = ensemble ?? server ?? { connectString: requireConnectString(settings, name) };
      const connection = new ZkConnection(name, settings, target, server, explorer, modules);
      connection.startLogging();
      return connection;
    } catch (error) {
      await server?.stop();
      throw error;
    }
  }

  async onModuleInit(): Promise<void> {
    await this.stopIfFailed(async () => {
      this.explorer.checkRequirements(this.locks.defaultWait, this.logger);
      this.logger.log(
        `connecting to ${this.ensemble.connectString} over the ${this.client.transport} transport`,
      );
      if (this.settings.lazyConnection) connectInBackground(this.client);
      else await this.connect();
    });
  }

  /** Joins elections only now: a leader may rely on what all modules prepared in `onModuleInit`. */
  async onApplicationBootstrap(): Promise<void> {
    await this.stopIfFailed(async () => {
      for (const election of this.settings.elections.keys()) this.leaders.isLeader(election);
      this.explorer.joinElections(this.leaders, this.logger);
      // An embedded server ends with the process, and all sessions with it.
      if (!this.server) this.stopLogging.push(checkShutdownHooks(this.modules, this.logger));
    });
  }

  /**
   * Resigns in the earliest phase of a shutdown, so that another instance leads before this one stops its
   * servers and scheduled jobs. Nest calls this hook of global modules after that of all others.
   */
  async onModuleDestroy(): Promise<void> {
    await this.leaders.resignAll(this.timeLeft());
  }

  /**
   * Waits for the leases that are held, because other modules close what their holders use, such as a pool of database
   * connections, in the next hook. Not before this one, because partitions and consumers close in the one before, and may
   * need the session for longer. Then Nest closes its servers, and waits for their requests: those that wait for a lock were
   * refused.
   */
  async beforeApplicationShutdown(): Promise<void> {
    this.tracker.refuse();
    // The application may be closed twice.
    if (this.shutdownTimers.length > 0) return;
    const { shutdownTimeout } = this.settings;
    const remind = () => this.warnOfHeld(`the shutdown waits at most ${shutdownTimeout} ms for`);
    // The next hook rejects with the error of `stop`.
    const end = () => void this.stop().catch(() => {});
    this.shutdownTimers = [
      setTimeout(remind, DRAIN_REMINDER).unref(),
      setTimeout(end, this.timeLeft()).unref(),
    ];
    await this.tracker.drain(this.timeLeft());
  }

  async onApplicationShutdown(): Promise<void> {
    await this.stop();
  }

  get mapError(): ErrorMapping {
    return this.settings.mapError ?? (() => undefined);
  }

  private async connect(): Promise<void> {
    try {
      await this.client.connect();
    } catch (cause) {
      if (!(cause instanceof ConnectionError)) throw cause;
      const what = `the ZooKeeper connection ${JSON.stringify(this.name)} to ${this.ensemble.connectString} failed`;
      throw new ConnectionError(
        `${what}: ${cause.message}; start a server there, or set lazyConnection: true to start the application without one`,
        { cause },
      );
    }
  }

  /** Nest may end a failed start without a shutdown. An open client would keep the process alive. */
  private async stopIfFailed(start: () => Promise<void>): Promise<void> {
    try {
      await start();
    } catch (error) {
      await this.beforeApplicationShutdown();
      await this.stop();
      throw error;
    }
  }

  private stop(): Promise<void> {
    this.stopped ??= this.release();
    return this.stopped;
  }

  private async release(): Promise<void> {
    await this.leaders.resignAll(this.timeLeft());
    await this.tracker.drain(this.timeLeft());
    for (const timer of this.shutdownTimers) clearTimeout(timer);
    this.warnOfHeld(`the shutdown has taken ${this.settings.shutdownTimeout} ms and releases`);
    await this.client.close();
    for (const stop of this.stopLogging) stop();
    await this.server?.stop();
  }

  private warnOfHeld(what: string): void {
    const keys = this.tracker.heldKeys();
    const named = listOf(keys);
    if (keys.length > 0) this.logger.warn(`${what} ${keys.length} held lease(s): ${named}`);
  }

  /** Returns the milliseconds that are left of `shutdownTimeout`, which starts with the first call. */
  private timeLeft(): number {
    const now = performance.now();
    this.deadline ??= now + this.settings.shutdownTimeout;
    return Math.max(0, this.deadline - now);
  }

  private startLogging(): void {
    const { client, logger, server, settings, tracker } = this;
    if (server) {
      logger.warn(
        `embedded ZooKeeper on ${server.connectString}, for development and tests only: use an ensemble in production${settings.client.connectString ? '; connectString is not used' : ''}`,
      );
    }
    // With `logLeases` each loss has a line of its own.
    if (!settings.logLeases) {
      tracker.onLost = (keys, reason) => {
        logger.warn(`${keys.length} lease(s) were lost: ${listOf(keys)}; ${reason.message}`);
      };
    }
    const monitor = new OverdueMonitor(tracker, settings.warnAfter, (line) => logger.warn(line));
    this.stopLogging = [
      () => monitor.stop(),
      logStates(client, logger),
      logFailedConnects(client, logger),
      logRefusedDeletes(client, logger),
      logLeaders(client, logger),
      logFollows(client, logger),
      logDeadHolders(client, logger),
      onDeadlock(({ message }) => logger.warn(message), { client }),
      ...(settings.logLeases ? [logLeases(client, logger)] : []),
    ];
  }
}

async function startServer({ embedded }: ZkSettings): Promise<EmbeddedZooKeeper | undefined> {
  if (!embedded) return undefined;
  const { EmbeddedZooKeeper } = await import('./embedded/index.js');
  return EmbeddedZooKeeper.start(embedded);
}

function listOf(keys: readonly string[]): string {
  return keys
    .slice(0, 10)
    .map((key) => foreignText(key))
    .join(', ');
}
