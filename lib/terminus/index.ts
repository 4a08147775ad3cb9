import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import type { ZkClient } from '../client/index.js';
import { warn } from '../client/listeners.js';
import { checkOptions, FUNCTION, UNCHECKED } from '../client/validation.js';
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
   * Returns more details for the report, such as those of a group: `() => coordination.members('shops').health()`. Must
   * not return a promise. If it fails, the report has its error as `detailsError`, and the status does not change.
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
    checkOptions(options, { connection: UNCHECKED, details: FUNCTION });
    const token = getZkClientToken(options.connection);
    const { state, transport } = this.modules.get<ZkClient>(token, { strict: false });
    const indicator = this.indicators.check(key);
    const details = { state, transport, ...moreDetails(options) };
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

/** Returns the details of the application. An error in them must not hide the status of the connection. */
function moreDetails({ details }: ZkHealthOptions): object {
  try {
    const result: unknown = details?.();
    if (!(result instanceof Promise)) return result as object;
    result.catch(warn);
    return { detailsError: 'details must not return a promise' };
  } catch (error) {
    return { detailsError: String(error) };
  }
}
