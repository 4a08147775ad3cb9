import { performance } from 'node:perf_hooks';
import {
  abortable,
  checkBelowRoot,
  checkFunction,
  Listeners,
  MAX_TIMER,
  type Session,
  sleep,
  whenSettled,
  type ZkClient,
} from '../../client/index.js';
import { BackgroundRecipe, ErrorReporter } from '../../kernel/index.js';
import { Mutex } from '../../recipes/index.js';
import { PartitionCountError } from './errors.js';
import { MemberNode } from './member-node.js';
import {
  type Assignment,
  encodeCount,
  hasMembers,
  partitionsByMember,
  rebalance,
} from './partition-assignment.js';
import { type GroupView, PartitionGroup } from './partition-group.js';
import type { Partition } from './partition.js';
import { PartitionRunner } from './partition-runner.js';
import { checkPartitioner, type PartitionerOptions } from './partitioner-options.js';

/*
 * Partitioner (kazoo's SetPartitioner has the same purpose; Curator has no counterpart):
 *
 *   1. Each member has an ephemeral znode `<path>/members/<id>` with its number of partitions, and watches the children
 *      and the data of the parent.
 *   2. The data of the parent is the assignment: which member each partition is assigned to. After a member has joined or
 *      left, the first member waits for `rebalanceDelay`, computes the next assignment from the last one, and writes it with
 *      the version that it read. A member that fails or is slow delays the next assignment; it cannot make two owners.
 *   3. Each member acquires a mutex at `<path>/partitions/<index>` for each partition that is assigned to it, and calls
 *      the handler while it holds the mutex.
 *   4. When a partition is assigned to another member, its owner aborts the signal, and releases the mutex when the
 *      handler has settled. The next owner waits in the queue of the mutex.
 *
 * The parents are containers, and all other znodes are ephemeral: nothing is left after the last member.
 */

/**
 * The work on one partition. It is called when this process owns the partition, and must end when the signal aborts: the
 * next owner waits for that. If it returns earlier, the process keeps the partition and does not call it again. If it
 * fails, the error is reported, and it is called again after a pause of 1 second, which doubles up to 30 seconds.
 *
 * @publicApi
 */
export type PartitionHandler = (partition: Partition) => unknown;

/**
 * A member of a group that spreads a number of partitions over its members. Each partition has one owner at a time: the
 * next owner begins when the handler of the last one has settled, or its session has ended. The members have the same
 * number of partitions, or one more, and as few partitions as possible move when a member joins or leaves.
 *
 * `close()` leaves the group and aborts the signals of its partitions. It resolves when all handlers have settled and the
 * locks are released, or after `stopTimeout`, also while the server does not reply: then the znodes are deleted in the
 * background. A handler must not wait for it.
 *
 * @publicApi
 */
export class Partitioner extends BackgroundRecipe {
  /** The number of partitions. */
  readonly partitions: number;
  /** The name of this member. */
  readonly id: string;
  private readonly group: PartitionGroup;
  private readonly node: MemberNode;
  private readonly rebalanceDelay: number;
  private readonly stopTimeout: number;
  private readonly handlerErrors: ErrorReporter<[partition: number]>;
  private readonly runners = new Map<number, PartitionRunner>();
  private readonly changes = new Listeners<readonly Partition[]>();
  private assigned: ReadonlySet<number> = new Set();

  /**
   * @param path the parent of the znodes of the group
   * @throws BadOptionError
   */
  constructor(
    client: ZkClient,
    path: string,
    private readonly handler: PartitionHandler,
    options: PartitionerOptions,
  ) {
    checkBelowRoot(path);
    checkFunction(handler, 'handler');
    const checked = checkPartitioner(options);
    const reporter = new ErrorReporter<[partition?: number]>(checked.onError);
    super(client, path, reporter);
    this.handlerErrors = reporter;
    this.partitions = checked.partitions;
    this.id = checked.id;
    this.rebalanceDelay = checked.rebalanceDelay;
    this.stopTimeout = checked.stopTimeout;
    const onForeign = (error: Error) => this.reporter.report(error);
    this.group = new PartitionGroup(client, `${path}/members`, this.id, onForeign);
    this.node = new MemberNode(client, `${path}/members/${this.id}`, this.reporter);
  }

  /** Returns the partitions that this process owns at this moment, by their indexes. Reads the clock of the session. */
  owned(): readonly Partition[] {
    return [...this.runners.values()]
      .flatMap(({ partition }) => (partition?.owned ? [partition] : []))
      .sort((a, b) => a.index - b.index);
  }

  /**
   * Adds a listener. It is called with the partitions that this process owns, whenever they have changed. Returns a
   * function that removes it.
   */
  onChange(listener: (owned: readonly Partition[]) => void): () => void {
    return this.changes.add(listener);
  }

  /**
   * Reads the members, sorted, and the partitions that are assigned to each of them. A member that has just joined has
   * none yet.
   *
   * @throws RecipeConflictError if the znode has other data; errors as the operations of {@link ZkClient}
   */
  assignment(): Promise<ReadonlyMap<string, readonly number[]>> {
    return this.group.assignment();
  }

  protected get label(): string {
    return `the partitioner at ${this.path}`;
  }

  protected end(): Promise<void> {
    return sleep(this.stopTimeout, { until: whenSettled(this.leaveForGood()), ref: true });
  }

  private async leaveForGood(): Promise<void> {
    const loopEnded = this.loop.close(this.illegal('was closed'));
    const why = 'is released, because its member leaves';
    // The handlers need not wait for the end of the loop.
    this.assign([], why);
    await loopEnded;
    await this.leaveGroup(why);
    await Promise.all([...this.runners.values()].map(({ done }) => done));
  }

  protected override leave(): Promise<void> {
    return this.leaveGroup('is released after an error');
  }

  private async leaveGroup(why: string): Promise<void> {
    this.stopListening();
    this.assign([], why);
    await this.node.delete();
  }

  protected onSessionLost(): void {
    this.assign([], 'is lost with the session');
  }

  protected async participate(session: Session, signal: AbortSignal): Promise<never> {
    const { assignment, members } = await abortable(this.group.read(), signal);
    await this.checkCount(assignment, members, signal);
    await this.join(session, signal);
    for (let changedAt: number | undefined; ;) {
      const view = await this.group.watch(session, signal);
      try {
        changedAt = await this.follow(view, session, changedAt, signal);
      } finally {
        view.unwatch();
      }
    }
  }

  private async join(session: Session, signal: AbortSignal): Promise<void> {
    await this.node.create(session, encodeCount(this.partitions), signal);
  }

  /**
   * Works on the partitions that are assigned to this member. Resolves when the members or the assignment may have
   * changed.
   *
   * @param changedAt when the members began to differ from the assignment; undefined if they were the same
   * @returns the next `changedAt`
   */
  private async follow(
    { assignment, members, version, onChange }: GroupView,
    session: Session,
    changedAt: number | undefined,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    if (!members.includes(this.id)) {
      await this.join(session, signal);
      return changedAt;
    }
    await this.checkCount(assignment, members, signal);
    signal.throwIfAborted();
    // The container may still have the assignment of former members with another number of partitions.
    const previous = assignment?.owners.length === this.partitions ? assignment : undefined;
    const own = previous && partitionsByMember(previous).get(this.id);
    this.assign(own ?? [], 'is assigned to another member');
    this.reporter.reset();
    const since = hasMembers(previous, members) ? undefined : (changedAt ?? performance.now());
    const isWriter = since !== undefined && members[0] === this.id;
    const delay = isWriter ? since + this.rebalanceDelay - performance.now() : MAX_TIMER;
    if (delay > 0) {
      await sleep(delay, { signals: [signal], until: onChange });
      return since;
    }
    const next = rebalance(this.partitions, members, previous);
    await this.group.write(session, next, version, signal);
    return undefined;
  }

  /**
   * Reads the number of partitions of the other members, if the assignment has another one than this process.
   *
   * @throws PartitionCountError if a member that is alive has another number
   */
  private async checkCount(
    assignment: Assignment | undefined,
    members: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    if (!assignment || assignment.owners.length === this.partitions) return;
    for (const member of members) {
      if (member === this.id) continue;
      const count = await abortable(this.group.countOf(member), signal);
      if (count === undefined || count === this.partitions) continue;
      throw new PartitionCountError(
        `the group at ${this.path} has ${count} partitions, for example in member ${JSON.stringify(member)}, and this process has ${this.partitions}: stop all processes before you change the number, or use another name`,
        { key: this.path },
      );
    }
  }

  /** Starts and stops the work on partitions. */
  private assign(indexes: readonly number[], why: string): void {
    this.assigned = new Set(indexes);
    for (const [index, runner] of this.runners) {
      if (!this.assigned.has(index)) runner.stop(why);
    }
    for (const index of indexes) this.run(index);
  }

  /** Works on a partition. If the last work on it in this process has not ended, it begins afterwards. */
  private run(index: number): void {
    if (!this.assigned.has(index) || this.runners.has(index)) return;
    const path = `${this.path}/partitions/${index}`;
    const { client, handler, stopTimeout, id: name } = this;
    const runner = new PartitionRunner({
      index,
      mutex: new Mutex(client, path, { key: `partition ${index} of ${this.path}` }),
      name,
      stopTimeout,
      handler,
      onChange: () => this.changes.emit(this.owned()),
      onError: (error) => this.handlerErrors.report(error, index),
      onLockError: (error) => this.reporter.reportOnce(error),
    });
    this.runners.set(index, runner);
    void runner.done.then(() => {
      this.runners.delete(index);
      this.run(index);
    });
  }
}
