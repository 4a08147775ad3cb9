import { Inject } from '@nestjs/common';
import {
  getLeaderServiceToken,
  getLockServiceToken,
  getSemaphoreServiceToken,
  getZkClientToken,
} from '../services/tokens.js';

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
