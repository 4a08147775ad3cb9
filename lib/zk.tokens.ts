import { Inject, type InjectionToken } from '@nestjs/common';
import { BadOptionError } from './client/errors.js';
import { ZkClient } from './client/index.js';
import type { Connect } from './client/transport/transport.js';
import { LeaderService } from './services/leader.service.js';
import { LockService } from './services/lock.service.js';
import { SemaphoreService } from './services/semaphore.service.js';

/** What a connection is called that `forRoot` gives no `name`. */
export const DEFAULT_CONNECTION = 'default';

/**
 * The token of a connection's {@link ZkClient}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getZkClientToken(name?: string): InjectionToken<ZkClient> {
  return tokenOf(ZkClient, name);
}

/**
 * The token of a connection's {@link LockService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getLockServiceToken(name?: string): InjectionToken<LockService> {
  return tokenOf(LockService, name);
}

/**
 * The token of a connection's {@link SemaphoreService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getSemaphoreServiceToken(name?: string): InjectionToken<SemaphoreService> {
  return tokenOf(SemaphoreService, name);
}

/**
 * The token of a connection's {@link LeaderService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getLeaderServiceToken(name?: string): InjectionToken<LeaderService> {
  return tokenOf(LeaderService, name);
}

/**
 * Injects the {@link ZkClient} of a connection.
 *
 * @publicApi
 */
export const InjectZkClient = (name?: string): ReturnType<typeof Inject> =>
  Inject(getZkClientToken(name));

/**
 * Injects the {@link LockService} of a connection.
 *
 * @publicApi
 */
export const InjectLockService = (name?: string): ReturnType<typeof Inject> =>
  Inject(getLockServiceToken(name));

/**
 * Injects the {@link SemaphoreService} of a connection.
 *
 * @publicApi
 */
export const InjectSemaphoreService = (name?: string): ReturnType<typeof Inject> =>
  Inject(getSemaphoreServiceToken(name));

/**
 * Injects the {@link LeaderService} of a connection.
 *
 * @publicApi
 */
export const InjectLeaderService = (name?: string): ReturnType<typeof Inject> =>
  Inject(getLeaderServiceToken(name));

/** The token of what a connection's interceptors throw in place of its errors. */
export function getErrorMappingToken(name?: string): InjectionToken {
  return `ZkErrorMapping(${connectionName(name)})`;
}

export function connectionName(name: string = DEFAULT_CONNECTION, what = 'name'): string {
  if (typeof name !== 'string' || name === '') {
    throw new BadOptionError(what, name, 'a non-empty string, or left out');
  }
  return name;
}

function tokenOf<T>(type: new (...args: never[]) => T, name?: string): InjectionToken<T> {
  const connection = connectionName(name);
  return connection === DEFAULT_CONNECTION
    ? (type as InjectionToken<T>)
    : `${type.name}(${connection})`;
}

/** Where all connections of an application lead, in place of what their options say. */
export interface Ensemble {
  readonly connectString: string;
  /** In place of the client's own transports. */
  readonly connect?: Connect;
}

/** The token of an {@link Ensemble}; undefined but in tests. */
export const ZK_ENSEMBLE = Symbol('ZkEnsemble');
