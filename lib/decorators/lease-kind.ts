import type { InjectionToken } from '@nestjs/common';
import type { Entry } from '../recipes/index.js';
import { checkKey, checkKeys, type LockKeys } from '../services/lock-key.js';
import { checkLockOptions, LOCK_OPTIONS } from '../services/lock-options.js';
import { checkSemaphoreOptions, SEMAPHORE_OPTIONS } from '../services/semaphore-options.js';
import { getLockServiceToken, getSemaphoreServiceToken } from '../zk.tokens.js';

/** What a decorator holds while its method runs, by way of a service. */
export interface Holder {
  readonly defaultWait: number;
  enter(key: LockKeys, options: object): Promise<Entry>;
}

/** What tells one such decorator from another. */
export interface LeaseKind {
  /** As it is written, for messages; likewise the service. */
  readonly decorator: string;
  readonly service: string;
  readonly options: readonly string[];
  tokenOf(connection: string): InjectionToken<Holder>;
  checkKey(key: unknown, what: string): asserts key is LockKeys;
  /** Checks what the service takes. `keys` is known where the decorator names them. */
  checkOptions(options: object, keys: unknown, named: (option: string) => string): void;
}

export const LOCK: LeaseKind = {
  decorator: '@DistributedLock',
  service: 'LockService',
  options: LOCK_OPTIONS,
  tokenOf: getLockServiceToken,
  checkKey: checkKeys,
  checkOptions: checkLockOptions,
};

export const SEMAPHORE: LeaseKind = {
  decorator: '@DistributedSemaphore',
  service: 'SemaphoreService',
  options: SEMAPHORE_OPTIONS,
  // Given a key that checkKey let pass, and the options that checkOptions did.
  tokenOf: getSemaphoreServiceToken as LeaseKind['tokenOf'],
  checkKey,
  checkOptions: (options, _, named) => checkSemaphoreOptions(options, named),
};
