import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import type { ZkClient } from '../client/index.js';
import { checkFunction, checkOptions } from '../client/validation.js';
import { getZkClientToken } from '../services/tokens.js';

/**
 * Options of {@link ZkHealthIndicator.isHealthy}.
 *
 * @publicApi
 */
export interface ZkHealthOptions {
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
  /**
   * Returns more details for the report, such as those of a group: `() => coordination.members('shops').health()`.
   * Default: none.
   */
  details?: (() => object) | undefined;
}

/**
 * Reports a connection to Terminus: up while it is connected, degraded while it is suspended and its session may still
 * be alive, down without a session. Reads the state that the client keeps, without a request to ZooKeeper.
 *
 * ```ts
 * check() {
 *   return this.health.check([() => this.zookeeper.isHealthy('zookeeper')]);
 * }
 * ```
 *
 * @publicApi
 */
@Injectable()
export class ZkHealthIndicator {
  constructor(
    private readonly indicators: HealthIndicatorService,
    private readonly modules: ModuleRef,
  ) {}

  /**
   * @param key name of the connection in the report
   * @throws BadOptionError; Nest's UnknownElementException if there is no such connection
   */
  isHealthy<const Key extends string>(
    key: Key,
    options: ZkHealthOptions = {},
  ): HealthIndicatorResult<Key> {
    checkOptions(options, ['connection', 'details'] satisfies (keyof ZkHealthOptions)[]);
    if (options.details !== undefined) checkFunction(options.details, 'details');
    const token = getZkClientToken(options.connection);
    const { state, transport, sessionId } = this.modules.get<ZkClient>(token, { strict: false });
    const indicator = this.indicators.check(key);
    const details = { state, transport, session: sessionId, ...options.details?.() };
    switch (state) {
      case 'CONNECTED':
      case 'RECONNECTED':
        return indicator.up(details);
      case 'SUSPENDED':
        // Terminus 11 has no degraded state; the details contain the state.
        return indicator.degraded?.(details) ?? indicator.up(details);
      default:
        return indicator.down(details);
    }
  }
}
