import { setMaxListeners } from 'node:events';
import type { InjectionToken } from '@nestjs/common';
import { ShuttingDownError, type ZkClient } from '../client/index.js';
import { checkKey, encodeKey } from '../services/keys.js';
import { connectionName, DEFAULT_CONNECTION } from '../services/tokens.js';
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

  constructor(readonly client: ZkClient) {
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
