import { setMaxListeners } from 'node:events';
import type { InjectionToken, LoggerService } from '@nestjs/common';
import { fromEvent, Observable, takeUntil } from 'rxjs';
import { BadOptionError, ShuttingDownError, type ZkClient } from '../client/index.js';
import { checkPath, checkRecord } from '../client/validation.js';
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
import { DistributedPriorityQueue } from './recipes/distributed-priority-queue.js';
import { DistributedQueue } from './recipes/distributed-queue.js';
import { GroupMember, type GroupMemberOptions } from './recipes/group-member.js';
import { JSON_SERIALIZER, type QueueSerializer } from './recipes/internals/queue-items.js';
import type { QueueOptions } from './recipes/queue-base.js';

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
  private readonly groups = new Map<string, GroupMember>();
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

  /**
   * Joins the group `<namespace>/members/<group>` until the member is closed. Returns the member with which this process
   * has joined already, if there is one. Errors are logged, unless the option `onError` is set. The shutdown closes it.
   *
   * @throws BadOptionError if the name or an option is invalid, or if options are given for a group that this process has
   *   joined already
   */
  members(group: string, options?: GroupMemberOptions): GroupMember {
    const path = this.pathOf('members', group);
    const existing = this.groups.get(group);
    if (existing?.state === 'started') {
      if (!options) return existing;
      const message = `this process is member ${existing.id} of group ${JSON.stringify(group)} already: omit the options, or use setData()`;
      throw new BadOptionError('options', options, { message });
    }
    const onError = (error: unknown) =>
      this.logger.error(`members of group ${JSON.stringify(group)}: ${String(error)}`);
    const member = this.closing(new GroupMember(this.client, path, { onError, ...options }));
    this.groups.set(group, member);
    member.start();
    return member;
  }

  /** Emits the members of a group, with their data: at once, and at each change. Joins the group as {@link members} does. */
  memberChanges(group: string): Observable<ReadonlyMap<string, Buffer>> {
    return new Observable<ReadonlyMap<string, Buffer>>((subscriber) => {
      const member = this.members(group);
      subscriber.add(member.onChange((members) => subscriber.next(members)));
      subscriber.next(member.members);
    }).pipe(takeUntil(fromEvent(this.stopping.signal, 'abort')));
  }

  /**
   * Returns the queue `<namespace>/queues/<name>` of JSON values, with the locks of its items in
   * `<namespace>/queue-locks/<name>`. Keep the object. The errors of its consumers are logged, unless the option `onError`
   * is set. The shutdown closes it.
   *
   * @throws BadOptionError if the name or an option is invalid
   */
  queue<T = unknown>(name: string, options: QueueOptions<T> = {}): DistributedQueue<T> {
    const path = this.pathOf('queues', name);
    return this.closing(new DistributedQueue(this.client, path, this.withDefaults(name, options)));
  }

  /** As {@link queue}, for a queue whose puts have priorities. A queue has priorities for all of its users or for none. */
  priorityQueue<T = unknown>(
    name: string,
    options: QueueOptions<T> = {},
  ): DistributedPriorityQueue<T> {
    const path = this.pathOf('queues', name);
    const complete = this.withDefaults(name, options);
    return this.closing(new DistributedPriorityQueue(this.client, path, complete));
  }

  private withDefaults<T>(name: string, options: QueueOptions<T>): QueueOptions<T> {
    const lockPath = this.pathOf('queue-locks', name);
    const onError = (error: Error) =>
      this.logger.error(`queue ${JSON.stringify(name)}: ${error.message}`, stackOf(error));
    checkRecord(options);
    const { serializer = JSON_SERIALIZER as QueueSerializer<never> } = options;
    return { lockPath, onError, ...options, serializer };
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

/** The stack of the handler's error, if that is the cause. */
function stackOf(error: Error): string | undefined {
  return error.cause instanceof Error ? error.cause.stack : error.stack;
}
