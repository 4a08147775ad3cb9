import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type HealthIndicatorResult, HealthIndicatorService } from '@nestjs/terminus';
import type { ZkClient } from '../client/index.js';
import { checkKnownOptions } from '../services/service-options.js';
import { getZkClientToken } from '../zk.tokens.js';

/**
 * Which connection is meant.
 *
 * @publicApi
 */
export interface ZkHealthOptions {
  /** The `name` of the connection; the default connection where it is left out. */
  connection?: string;
}

/**
 * Tells Terminus how a connection is: up while it stands, degraded while it is away and the session may
 * live, down where there is no session to trust. The client watches its connection all the time, so
 * asking costs ZooKeeper nothing.
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
   * @param key what the connection is called in the report
   * @throws BadOptionError, and Nest's UnknownElementException where there is no such connection
   */
  isHealthy<const Key extends string>(
    key: Key,
    options: ZkHealthOptions = {},
  ): HealthIndicatorResult<Key> {
    checkKnownOptions('options', options, ['connection'] satisfies (keyof ZkHealthOptions)[]);
    const token = getZkClientToken(options.connection);
    const { state, transport, sessionId } = this.modules.get<ZkClient>(token, { strict: false });
    const indicator = this.indicators.check(key);
    const details = { state, transport, session: sessionId };
    switch (state) {
      case 'CONNECTED':
      case 'RECONNECTED':
        return indicator.up(details);
      case 'SUSPENDED':
        // Terminus 11 knows up and down alone; its details say the rest.
        return indicator.degraded?.(details) ?? indicator.up(details);
      default:
        return indicator.down(details);
    }
  }
}
