import type { InjectionToken, LoggerService } from '@nestjs/common';
import { distinctUntilChanged, Observable, Subject, takeUntil } from 'rxjs';
import {
  BadOptionError,
  checkRecord,
  Listeners,
  quotedKey,
  ShuttingDownError,
  type ZkClient,
} from '../client/index.js';
import { checkKey, encodeKey } from '../services/keys.js';
import { connectionName, DEFAULT_CONNECTION, loggerOf } from '../services/tokens.js';
import { closeEach } from './close-each.js';
import type { Partition } from './recipes/partition.js';
import { PartitionGroup } from './recipes/partition-group.js';
import { Partitioner, type PartitionHandler } from './recipes/partitioner.js';
import type { PartitionerOptions } from './recipes/partitioner-options.js';

/**
 * Returns the token of a connection's {@link PartitionService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getPartitionServiceToken(name?: string): InjectionToken<PartitionService> {
  const connection = connectionName(name);
  return connection === DEFAULT_CONNECTION ? PartitionService : `PartitionService(${connection})`;
}

/**
 * Spreads partitions of work over the processes that are alive, by the name of the work.
 *
 * @publicApi
 */
export class PartitionService {
  private readonly groups = new Map<string, Partitioner>();
  private readonly changed = new Listeners<string>();
  private readonly shutdown = new Subject<void>();
  private closing: Promise<void> | undefined;

  constructor(
    readonly client: ZkClient,
    private readonly logger: LoggerService = loggerOf(DEFAULT_CONNECTION),
  ) {}

  /**
   * Joins the group `<namespace>/partitions/<name>`, and calls `handler` for each partition that this process owns. Errors
   * are logged, unless the option `onError` is set. The shutdown releases all partitions in its earliest phase.
   *
   * @throws BadOptionError, also if this process has joined the group already; ShuttingDownError
   */
  join(name: string, options: PartitionerOptions, handler: PartitionHandler): Partitioner {
    const path = this.pathOf(name);
    if (this.closing) throw new ShuttingDownError('the application is shutting down');
    if (this.groups.get(name)?.state === 'started') {
      const message = `this process has joined the partitions ${JSON.stringify(name)} already, by @Partitioned or join(): close that partitioner first, or use another name`;
      throw new BadOptionError('name', name, { message });
    }
    checkRecord(options);
    const log = (error: Error, partition?: number) => {
      const what = partition === undefined ? '' : `, partition ${partition}`;
      this.logger.error(`partitions ${quotedKey(name)}${what}: ${error.message}`, error.stack);
    };
    const { onError = log, ...rest } = options;
    const partitioner = new Partitioner(this.client, path, handler, { ...rest, onError });
    this.groups.set(name, partitioner);
    partitioner.onChange(() => this.changed.emit(name));
    partitioner.start();
    return partitioner;
  }

  /** Returns the partitions that this process owns at this moment; none if it has not joined. */
  owned(name: string): readonly Partition[] {
    checkKey(name, 'name');
    return this.groups.get(name)?.owned() ?? [];
  }

  /** Emits the partitions that this process owns: at once, and at each change. Completes at the shutdown. */
  changes(name: string): Observable<readonly Partition[]> {
    checkKey(name, 'name');
    return new Observable<readonly Partition[]>((subscriber) => {
      const emit = () => subscriber.next(this.owned(name));
      subscriber.add(this.changed.add((each) => each === name && emit()));
      emit();
      if (this.closing) subscriber.complete();
    }).pipe(distinctUntilChanged(isSame), takeUntil(this.shutdown));
  }

  /**
   * Reads the members of all processes, sorted, and the partitions that are assigned to each of them. Does not join.
   *
   * @throws RecipeConflictError if the znode has other data; ConnectionError, NotAuthorizedError, ShuttingDownError
   */
  assignment(name: string): Promise<ReadonlyMap<string, readonly number[]>> {
    return new PartitionGroup(this.client, `${this.pathOf(name)}/members`).assignment();
  }

  /** Leaves all groups, and waits for the handlers as {@link Partitioner.close} does. Idempotent. */
  closeAll(): Promise<void> {
    this.closing ??= closeEach([...this.groups.values()], this.logger).then(() =>
      this.shutdown.next(),
    );
    return this.closing;
  }

  private pathOf(name: string): string {
    checkKey(name, 'name');
    return `${this.client.namespace}/partitions/${encodeKey(name)}`;
  }
}

function isSame(one: readonly Partition[], other: readonly Partition[]): boolean {
  return one.length === other.length && one.every((each, index) => each === other[index]);
}
