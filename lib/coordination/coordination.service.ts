import { setMaxListeners } from 'node:events';
import type { InjectionToken, LoggerService } from '@nestjs/common';
import type { Observable } from 'rxjs';
import {
  BadOptionError,
  checkOptions,
  checkPath,
  checkRecord,
  isError,
  quotedKey,
  ShuttingDownError,
  type ZkClient,
} from '../client/index.js';
import { checkKey, encodeKey } from '../services/keys.js';
import { connectionName, DEFAULT_CONNECTION, loggerOf } from '../services/tokens.js';
import { type Closeable, closeEach } from './close-each.js';
import {
  LIVE_VALUE_RULES,
  type LiveValue,
  type LiveValueOptions,
  type ValidatedOptions,
  ZkLiveValue,
} from './live-value.js';
import { memberChanges } from './member-changes.js';
import { ZkCache, type ZkCacheOptions } from './recipes/cache.js';
import {
  DistributedAtomicLong,
  type DistributedAtomicLongOptions,
} from './recipes/distributed-atomic-long.js';
import { DistributedBarrier } from './recipes/distributed-barrier.js';
import { DistributedDoubleBarrier } from './recipes/distributed-double-barrier.js';
import { DistributedQueue, type QueueOptions } from './recipes/distributed-queue.js';
import { GroupMember, type GroupMemberOptions } from './recipes/group-member.js';
import { JSON_SERIALIZER, type QueueSerializer } from './recipes/internals/queue-items.js';
import { PersistentNode, type PersistentNodeOptions } from './recipes/persistent-node.js';

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
  /** A queue without consumers and pending puts needs no close. The process then drops it with its last reference. */
  private readonly queues = new Set<WeakRef<Closeable>>();
  private readonly droppedQueues = new FinalizationRegistry<WeakRef<Closeable>>((queue) =>
    this.queues.delete(queue),
  );
  /** The last member of this process in each group. */
  private readonly groups = new Map<string, GroupMember>();
  private readonly stopping = new AbortController();
  private closing: Promise<void> | undefined;

  constructor(
    readonly client: ZkClient,
    private readonly logger: LoggerService = loggerOf(DEFAULT_CONNECTION),
  ) {
    // Node warns about more than 10 listeners, and each wait adds one.
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
   * Returns a member of the double barrier `<namespace>/double-barriers/<name>` of `members` members. At the shutdown of
   * the application its waits reject with a {@link ShuttingDownError}.
   *
   * @throws BadOptionError if the name or the number is invalid
   */
  doubleBarrier(name: string, members: number): DistributedDoubleBarrier {
    const { signal } = this.stopping;
    const path = this.pathOf('double-barriers', name);
    return new DistributedDoubleBarrier(this.client, path, members, { signal });
  }

  /**
   * Returns the member with which this process has joined the group `<namespace>/members/<group>` last, also after its
   * close. Joins the group if there is none, or if options are given. Errors are logged, unless the option `onError` is
   * set. The shutdown closes the member.
   *
   * @throws BadOptionError if the name or an option is invalid, or if options are given while this process is a member of
   *   the group; ShuttingDownError if it would join
   */
  members(group: string, options?: GroupMemberOptions): GroupMember {
    const path = this.pathOf('members', group);
    const existing = this.groups.get(group);
    if (existing && !options) return existing;
    this.assertRunning();
    if (existing?.state === 'started') {
      const message = `this process is member ${existing.id} of group ${JSON.stringify(group)} already: omit the options, or use setData()`;
      throw new BadOptionError('options', options, { message });
    }
    const complete = this.logErrors(options, `members of group ${quotedKey(group)}`);
    const member = new GroupMember(this.client, path, complete);
    this.groups.set(group, member);
    member.start();
    return member;
  }

  /**
   * Emits the members of the group `<namespace>/members/<group>` with their data: as soon as all are known, and at each
   * change. Does not join the group. Each subscription reads the group and watches it until it is unsubscribed. Completes
   * at the shutdown. Errors are logged.
   *
   * @throws BadOptionError if the name is invalid
   */
  memberChanges(group: string): Observable<ReadonlyMap<string, Buffer>> {
    const path = this.pathOf('members', group);
    return memberChanges(() => (this.stopping.signal.aborted ? undefined : this.cache(path)));
  }

  /**
   * Returns the queue `<namespace>/queues/<name>` of JSON values, with the locks of its items in
   * `<namespace>/queue-locks/<name>`. Keep the object. The errors of its consumers are logged, unless the option `onError`
   * is set. The shutdown closes it.
   *
   * @throws BadOptionError if the name or an option is invalid; ShuttingDownError
   */
  queue<T = unknown>(name: string, options: QueueOptions<T> = {}): DistributedQueue<T> {
    const path = this.pathOf('queues', name);
    this.assertRunning();
    const {
      lockPath = this.pathOf('queue-locks', name),
      serializer = JSON_SERIALIZER as QueueSerializer<never>,
      ...rest
    } = this.logErrors(options, `queue ${quotedKey(name)}`);
    const queue = new DistributedQueue(this.client, path, { ...rest, lockPath, serializer });
    const reference = new WeakRef(queue);
    this.queues.add(reference);
    this.droppedQueues.register(queue, reference);
    return queue;
  }

  /** Closes all recipes that this service has opened. The client stays open. Idempotent. */
  closeAll(): Promise<void> {
    this.stopping.abort(new ShuttingDownError('the application is shutting down'));
    this.closing ??= closeEach(
      [
        ...this.opened,
        ...this.groups.values(),
        ...[...this.queues].map((reference) => reference.deref()),
      ],
      this.logger,
    );
    return this.closing;
  }

  /**
   * Returns a started cache of a znode and its descendants. Its errors are logged, unless the option `onError` is set. The
   * shutdown closes it.
   *
   * @param path absolute, or relative to the namespace of the connection
   * @throws BadOptionError; ShuttingDownError
   */
  cache(path: string, options: ZkCacheOptions = {}): ZkCache {
    const znode = this.absolute(path);
    const complete = this.logErrors(options, `the cache of znode ${znode} is not complete`);
    return this.startRecipe(new ZkCache(this.client, znode, complete));
  }

  /**
   * Resolves to the live value of a znode when its first value is known. {@link ZkValue} injects such a value. The
   * shutdown closes it.
   *
   * @param path absolute, or relative to the namespace of the connection
   * @throws BadOptionError; LiveValueError if the znode is missing without a `default`, or its data is not valid;
   *   ConnectionError if there is no connection and no `default`; NotAuthorizedError, ShuttingDownError
   */
  value<T>(path: string, options: ValidatedOptions<T>): Promise<LiveValue<T>>;
  value<T = unknown>(path: string, options?: LiveValueOptions<T>): Promise<LiveValue<T>>;
  async value<T>(path: string, options: LiveValueOptions<T> = {}): Promise<LiveValue<T>> {
    const znode = this.absolute(path);
    checkOptions(options, LIVE_VALUE_RULES);
    this.assertRunning();
    const value = await ZkLiveValue.open(this.client, znode, options, this.logger);
    if (this.stopping.signal.aborted) await value.close();
    this.assertRunning();
    return this.closeOnShutdown(value, value.cache.signal);
  }

  /**
   * Returns a started persistent node `<namespace>/persistent-nodes/<name>`. Its errors are logged, unless the option
   * `onError` is set. The shutdown closes it; one with a `ttl` is left to its TTL.
   *
   * @throws BadOptionError if the name or an option is invalid; ShuttingDownError
   */
  persistentNode(name: string, options: PersistentNodeOptions = {}): PersistentNode {
    const path = this.pathOf('persistent-nodes', name);
    const complete = this.logErrors(options, `persistent node ${path}`);
    return this.startRecipe(new PersistentNode(this.client, path, complete));
  }

  private startRecipe<T extends PersistentNode | ZkCache>(recipe: T): T {
    this.assertRunning();
    this.closeOnShutdown(recipe, recipe.signal).start();
    return recipe;
  }

  private absolute(path: string): string {
    if (path === '') throw new BadOptionError('path', path, 'the path of a znode');
    const isRelative = typeof path === 'string' && !path.startsWith('/');
    return checkPath(isRelative ? `${this.client.namespace}/${path}` : path);
  }

  /** @throws ShuttingDownError */
  private assertRunning(): void {
    this.stopping.signal.throwIfAborted();
  }

  /** Returns `<namespace>/<kind>/<name>`, with the name encoded as the keys of locks are. */
  protected pathOf(kind: string, name: string): string {
    checkKey(name, 'name');
    return `${this.client.namespace}/${kind}/${encodeKey(name)}`;
  }

  /** Returns a copy of some options in which `onError` has a default: it logs the error after the label. */
  private logErrors<T extends { onError?: ((error: Error) => void) | undefined }>(
    options: T | undefined,
    label: string,
  ): T {
    if (options !== undefined) checkRecord(options);
    const log = (error: Error) => this.logger.error(`${label}: ${error.message}`, stackOf(error));
    return { ...options, onError: options?.onError === undefined ? log : options.onError } as T;
  }

  /**
   * Returns `recipe`, which the shutdown of the application closes.
   *
   * @param closed aborts if it is closed before
   */
  private closeOnShutdown<T extends Closeable>(recipe: T, closed: AbortSignal): T {
    this.opened.add(recipe);
    closed.addEventListener('abort', () => this.opened.delete(recipe), { once: true });
    return recipe;
  }
}

/** The stack of the handler's error, if that is the cause. */
function stackOf(error: Error): string | undefined {
  return isError(error.cause) ? error.cause.stack : error.stack;
}
