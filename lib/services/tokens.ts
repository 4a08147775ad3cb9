import { type InjectionToken, Logger } from '@nestjs/common';
import { BadOptionError } from '../client/errors.js';
import { ZkClient } from '../client/index.js';
import { LeaderService } from './leader.service.js';
import { LockService } from './lock.service.js';
import { SemaphoreService } from './semaphore.service.js';

/** Name of the connection that `forRoot` makes without a `name`. */
export const DEFAULT_CONNECTION = 'default';

/**
 * Returns the token of a connection's {@link ZkClient}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getZkClientToken(name?: string): InjectionToken<ZkClient> {
  return tokenOf(ZkClient, name);
}

/**
 * Returns the token of a connection's {@link LockService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getLockServiceToken(name?: string): InjectionToken<LockService> {
  return tokenOf(LockService, name);
}

/**
 * Returns the token of a connection's {@link SemaphoreService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getSemaphoreServiceToken(name?: string): InjectionToken<SemaphoreService> {
  return tokenOf(SemaphoreService, name);
}

/**
 * Returns the token of a connection's {@link LeaderService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getLeaderServiceToken(name?: string): InjectionToken<LeaderService> {
  return tokenOf(LeaderService, name);
}

/** Returns the token of a connection's option `mapError`. */
export function getErrorMappingToken(name?: string): InjectionToken {
  return `ZkErrorMapping(${connectionName(name)})`;
}

/** Returns the logger of a connection. */
export function loggerOf(name: string): Logger {
  return new Logger(name === DEFAULT_CONNECTION ? 'ZkModule' : `ZkModule(${name})`);
}

/** Checks the name of a connection. @param what the option in error messages */
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
