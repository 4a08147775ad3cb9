import { setMaxListeners } from 'node:events';
import type { InjectionToken, LoggerService } from '@nestjs/common';
import { ShuttingDownError, type ZkClient } from '../client/index.js';
import { checkPath } from '../client/validation.js';
import { checkKey, encodeKey } from '../services/keys.js';
import { connectionName, DEFAULT_CONNECTION, loggerOf } from '../services/tokens.js';
import {
  checkLiveValue,
  LIVE_VALUE_OPTIONS,
  type LiveValue,
  type LiveValueOptions,
  ZnodeValue,
} from './live-value.js';
import { ZkCache, type ZkCacheOptions } from './recipes/cache.js';
import {
  DistributedAtomicLong,
  type DistributedAtomicLongOptions,
} from './recipes/distributed-atomic-long.js';
import { DistributedBarrier } from './recipes/distributed-barrier.js';
import { DistributedDoubleBarrier } from './recipes/distributed-double-barrier.js';

/** Something that a service has opened and closes at the shutdown. */
interface Closeable {
  close(): Promise<void>;
}

/**
 * Returns the token of a connection's {@link CoordinationService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getCoordinationServiceToken(name?: string): InjectionToken<CoordinationService> {
  const connection = connectionName(name);
  return connection === DEFAULT_CONNECTION
    ? CoordinationService
    : `CoordinationService(${connection})`;
}

/**
 * The coordination recipes by name, across all processes on the same ensemble and namespace.
 *
 * @publicApi
 */
export class CoordinationService {
  private readonly opened = new Set<Closeable>();
  private readonly stopping = new AbortController();

  constructor(
    readonly client: ZkClient,
    private readonly logger: LoggerService = loggerOf(DEFAULT_CONNECTION),
  ) {
    // Every wait at a barrier adds a listener.
    setMaxListeners(0, this.stopping.signal);
  }

  /**
   * Returns the counter `<namespace>/counters/<name>`. Keep the object: the changes that wait in one object share a write.
   *
   * @throws BadOptionError if the name or an option is invalid
   */
  counter(name: string, options?: DistributedAtomicLongOptions): DistributedAtomicLong {
    return new DistributedAtomicLong(this.client, this.pathOf('counters', name), options);
  }

  /**
   * Returns the barrier `<namespace>/barriers/<name>`. At the shutdown of the application its waits reject with a
   * {@link ShuttingDownError}.
   *
   * @throws BadOptionError if the name is invalid
   */
  barrier(name: string): DistributedBarrier {
    const { signal } = this.stopping;
    return new DistributedBarrier(this.client, this.pathOf('barriers', name), { signal });
  }

  /**
   * Returns a member of the double barrier `<namespace>/double-barriers/<name>`, which opens for `members` of them. At the
   * shutdown of the application its waits reject with a {@link ShuttingDownError}.
   *
   * @throws BadOptionError if the name or the number is invalid
   */
  doubleBarrier(name: string, members: number): DistributedDoubleBarrier {
    const { signal } = this.stopping;
    const path = this.pathOf('double-barriers', name);
    return new DistributedDoubleBarrier(this.client, path, members, { signal });
  }

  /** Closes what the methods of this service have opened. The client stays open. Idempotent. */
  async closeAll(): Promise<void> {
    this.stopping.abort(new ShuttingDownError('the application is shutting down'));
    const opened = [...this.opened];
    this.opened.clear();
    await Promise.all(opened.map((each) => each.close()));
  }

  /**
   * Returns a started cache of a znode and its descendants. Its errors are logged, unless the option `onError` is set. The
   * shutdown closes it.
   *
   * @param path absolute, or relative to the namespace of the connection
   * @throws BadOptionError
   */
  cache(path: string, options: ZkCacheOptions = {}): ZkCache {
    const znode = this.absolute(path);
    const onError = (error: unknown) =>
      this.logger.error(`the cache of znode ${znode} is not complete: ${String(error)}`);
    const cache = new ZkCache(this.client, znode, { onError, ...options });
    this.closeAtShutdown(cache, cache);
    cache.start();
    return cache;
  }

  /**
   * Resolves to the live value of a znode when its first value is known. {@link ZkValue} injects such a value. The
   * shutdown closes it.
   *
   * @param path absolute, or relative to the namespace of the connection
   * @throws BadOptionError; LiveValueError if the znode is missing without a `default`, or its data is not valid;
   *   ConnectionError if there is no connection and no `default`; NotAuthorizedError, ShuttingDownError
   */
  async value<T = unknown>(path: string, options: LiveValueOptions<T> = {}): Promise<LiveValue<T>> {
    const znode = this.absolute(path);
    checkLiveValue(options, LIVE_VALUE_OPTIONS);
    const value = await ZnodeValue.open(this.client, znode, options, this.logger);
    this.closeAtShutdown(value, value.cache);
    return value;
  }

  private absolute(path: string): string {
    const isRelative = typeof path === 'string' && !path.startsWith('/');
    return checkPath(isRelative ? `${this.client.namespace}/${path}` : path);
  }

  private closeAtShutdown(opened: Closeable, { signal }: ZkCache): void {
    this.closing(opened);
    signal.addEventListener('abort', () => this.opened.delete(opened), { once: true });
  }

  /** Returns `<namespace>/<kind>/<name>`, with the name encoded as the keys of locks are. */
  protected pathOf(kind: string, name: string): string {
    checkKey(name, 'name');
    return `${this.client.namespace}/${kind}/${encodeKey(name)}`;
  }

  /** Returns `recipe`, which the shutdown of the application closes. */
  protected closing<T extends Closeable>(recipe: T): T {
    this.opened.add(recipe);
    return recipe;
  }
}
