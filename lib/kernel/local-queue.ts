import type { Session, ZkClient } from '../client/index.js';
import { Affinity } from './affinity.js';
import { currentChain, runDetached } from './call-chain.js';
import { reportDeadHolder } from './dead-holder.js';
import { watchForDeadlock } from './deadlock/detector.js';
import { FifoSet } from '../client/fifo-set.js';
import { ShortLivedMap } from '../client/short-lived-map.js';
import type { Grant } from './grant.js';
import { Handover, type HandoverSpec } from './handover.js';
import type { AcquireOptions } from './lease.js';
import { DEFAULT_HOLDER_DATA, holderData, type NodeData, withLingerMark } from './node-data.js';
import { type QueueNames, type QueueNode, queueOf, type QueueSpec } from './node-names.js';
import { type BlockingNode, type FirstAttempt, joinQueue, Tries, waitInQueue } from './queue.js';
import type { QueuePosition } from './queue-position.js';
import { leavePlace } from './succession.js';
import type { LockKind, Subject } from './types.js';
import {
  busy,
  cancelled,
  NO_WAITERS,
  type Request,
  returnController,
  takeController,
  Waiter,
} from './waiter.js';

/*
 * All callers of this process that want one lock. They wait here, first in, first out, behind a znode that the process
 * creates for the first of them:
 *
 *     idle ── a caller asks ──▶ acquiring ── the znode is granted ──▶ open: a Handover serves the callers
 *      ▲                        ▲     │                                │
 *      │ no waiters             │     │ no waiters left                │ closed: other processes have their turn
 *      └────────────────────────┴─────┴────────────────────────────────┘
 *
 * The queue of a semaphore acquires the next permits while earlier ones are still held; all others acquire one znode
 * at a time.
 */

/** How a queue acquires what it hands out. */
export interface LocalQueueSpec extends HandoverSpec {
  /** Whether the callers hold permits, each by znodes of its own. */
  readonly servesPermits?: boolean;
  /** The queue of znodes, if one znode is enough. Then {@link joinQueue} makes the first attempt. */
  readonly queue?: QueueSpec;
  /** Acquires znodes for the first waiter. */
  acquire(first: Waiter<Grant>, options: AcquireContext): Promise<QueuePosition>;
  /** Called when the queue comes into use. Returns a function that is called when it is idle again. */
  use?(): () => void;
}

interface AcquireContext {
  /** Aborts when the first waiter cannot use the znodes any more. */
  readonly signal: AbortSignal;
  readonly tries: Tries;
  readonly firstAttempt: FirstAttempt | undefined;
  onBlocked(node: NodeData): void;
  whyBlocked(node: BlockingNode, session: Session): string | undefined;
}

type LocalQueues = ShortLivedMap<string, LocalQueue>;

/** The queues that are in use, by client and by recipe and path. */
const queuesInUse = new WeakMap<ZkClient, LocalQueues>();

/**
 * Returns the only queue of this process for a lock.
 *
 * @param variant distinguishes queues of one path
 */
export function findLocalQueue(
  { client, path, recipe }: Pick<LocalQueueSpec, 'client' | 'path' | 'recipe'>,
  specOf: () => LocalQueueSpec,
  variant = '',
): LocalQueue {
  let queues = queuesInUse.get(client);
  if (!queues) queuesInUse.set(client, (queues = new ShortLivedMap()));
  const name = `${recipe}${variant} ${path}`;
  return queues.get(name) ?? new LocalQueue(specOf(), queues, name);
}

export class LocalQueue {
  readonly waiters = new FifoSet<Waiter<Grant>>();
  /** Our znode in the queue of the ensemble, once another one was seen ahead of it. */
  blockedNode: NodeData | undefined;
  private readonly tries = new Tries();
  /** The latest handover. */
  private handover: Handover | undefined;
  /** The handovers that are not closed. */
  private open = 0;
  /** Whether an acquisition is under way. */
  private acquiring = false;
  /** Aborts it, once it waits. */
  private acquisition: AbortController | undefined;
  private acquiredCount = 1;
  private used = false;
  private endUse: (() => void) | undefined;

  /** @param inUse where the queue is found by its name while it is in use; undefined for a queue of a single caller */
  constructor(
    readonly spec: LocalQueueSpec,
    private readonly inUse?: LocalQueues,
    private readonly name = '',
  ) {}

  /** The znode by which this process holds the lock that the waiters wait for, if only one caller can hold it. */
  get heldNode(): string | undefined {
    const { handover, spec } = this;
    const holds = handover && handover.state !== 'closed' && !spec.shared && !spec.servesPermits;
    return holds ? handover.ownership.position.nodes[0] : undefined;
  }

  /** Returns the grant itself if the caller need not wait at all. */
  acquire(request: Request): Promise<Grant> | Grant {
    const { subject, signal, wait } = request;
    if (signal?.aborted) return Promise.reject(cancelled(subject, signal));
    const { spec, handover } = this;
    const grant = handover?.join(request);
    if (grant) return grant;
    if (wait === 0 && !spec.shared && this.refusesTries) return Promise.reject(busy(subject));
    if (!this.used) {
      this.endUse = spec.use?.();
      this.used = true;
      this.inUse?.set(this.name, this);
    }
    const waiter = new Waiter<Grant>(request, this);
    waiter.chain = currentChain();
    this.waiters.add(waiter);
    if (wait === 0) this.tries.add(waiter);
    else if (waiter.chain && !spec.servesPermits) watchForDeadlock(this);
    if (handover && handover.state !== 'closed' && !spec.servesPermits) void handover.advance();
    else if (!this.acquiring) this.serve();
    return waiter.promise;
  }

  /** Whether another caller of this process holds the lock or waits for it without a limit. */
  private get refusesTries(): boolean {
    const { state } = this.handover ?? {};
    const held = state !== undefined && state !== 'closed' && state !== 'lingering';
    // Queued tries do not show that the lock is held: it may have been released since they were blocked.
    return !this.spec.servesPermits && (held || this.waiters.size > this.tries.size);
  }

  /** Acquires znodes for the first waiter; ends the use of the queue without one. */
  private serve(): void {
    const { first } = this.waiters;
    this.acquiring = first !== undefined;
    if (!first) return this.endIfIdle();
    const { client, queue } = this.spec;
    const { request } = first;
    this.acquiredCount = request.count;
    // The acquisition outlives its caller, so it must not inherit the leases of the caller's call chain.
    const joins =
      queue &&
      joinQueue(
        client,
        queue,
        request.data,
        this.tries.lastArrival,
        (position) => runDetached(() => this.handOut(position, request)),
        (firstAttempt) => runDetached(() => void this.acquireNodes(first, firstAttempt)),
      );
    if (!joins) runDetached(() => void this.acquireNodes(first));
  }

  /** Acquires znodes for `first`. Ends when they are granted, or when no waiter can use them. */
  private async acquireNodes(first: Waiter<Grant>, firstAttempt?: FirstAttempt): Promise<void> {
    const { spec, tries } = this;
    const { subject } = first.request;
    const acquisition = (this.acquisition = takeController());
    const { signal } = acquisition;
    this.abortUnusable(acquisition);
    try {
      const position = await spec.acquire(first, {
        signal,
        tries,
        firstAttempt,
        onBlocked: (node) => (this.blockedNode = node),
        whyBlocked: (node, session) => reportDeadHolder(spec.client, subject, node, session),
      });
      this.acquisition = undefined;
      // The signal of a request for permits may still have dependent signals of AbortSignal.any().
      if (!spec.servesPermits) returnController(acquisition);
      this.handOut(position, first.request);
    } catch (error) {
      this.acquisition = undefined;
      // After an abort no caller waits for this acquisition any more. Later callers need another one.
      if (!signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      this.serve();
    }
  }

  /**
   * Grants znodes to the first waiters. Waiters may have left or arrived since the znodes were requested, so it deletes the
   * znodes that no waiter can use.
   */
  private handOut(position: QueuePosition, request: Request): void {
    const { spec, tries, waiters } = this;
    const { session, nodes } = position;
    let used = 0;
    while (waiters.first && session.trusted) {
      const { count } = waiters.first.request;
      if (used + count > nodes.length) break;
      const isAll = count === nodes.length;
      const own = isAll ? position : { ...position, nodes: nodes.slice(used, used + count) };
      used += count;
      this.open++;
      this.handover = new Handover(spec, own, request, this);
      this.handover.start();
    }
    if (used > 0 && tries.lastArrival > 0 && !spec.shared && !spec.servesPermits) {
      for (const waiter of tries.upTo(Infinity)) waiter.blocked();
    }
    for (const node of nodes.slice(used)) leavePlace(node, session.guaranteedDelete(node));
    if (used === 0 || spec.servesPermits) this.serve();
  }

  /** Called by a handover whose state is `closed`. */
  onClosed(): void {
    this.open--;
    if (this.spec.servesPermits) this.endIfIdle();
    else this.serve();
  }

  /** Called by a waiter whose wait has ended. */
  remove(waiter: Waiter<Grant>): void {
    this.waiters.delete(waiter);
    if (waiter.request.wait === 0) this.tries.delete(waiter);
    if (this.acquisition) this.abortUnusable(this.acquisition);
  }

  /** Ends an acquisition whose znodes the first waiter cannot use. */
  private abortUnusable(acquisition: AbortController): void {
    if (this.waiters.first?.request.count !== this.acquiredCount) acquisition.abort(NO_WAITERS);
  }

  private endIfIdle(): void {
    if (this.acquiring || this.open > 0 || this.waiters.size > 0) return;
    if (this.inUse?.get(this.name) === this) this.inUse.delete(this.name);
    this.used = false;
    this.endUse?.();
  }
}

/** A lock whose callers wait in one queue of znodes: a mutex, a read lock or a write lock. */
interface QueuedLock extends Subject {
  readonly client: ZkClient;
  readonly path: string;
  readonly recipe: LockKind;
}

/**
 * Acquires a lock through the queue of this process, or by a znode of its own if `fairness` is `'strict'`.
 *
 * @param isContender makes the lock shared: the callers of this process hold it together, and no more of them join while
 *   the queue has a znode for which this returns true. Default: one caller holds the lock at a time, and any znode
 *   besides our own is a contender
 */
export function acquireQueued(
  lock: QueuedLock,
  names: QueueNames,
  options: AcquireOptions,
  isContender?: (node: QueueNode) => boolean,
): Promise<Grant> | Grant {
  const { wait = Infinity, signal, details, fairness } = options;
  const strict = fairness === 'strict';
  const asked = strict ? 0 : (options.linger ?? 0);
  const affinity = asked === 'auto' ? Affinity.of(lock.client) : undefined;
  const linger = asked === 'auto' ? affinity!.lingerOf(lock) : asked;
  const plain = details === undefined ? DEFAULT_HOLDER_DATA : holderData(details);
  const data = linger > 0 ? withLingerMark(plain) : plain;
  const newSpec = () => queuedSpec(lock, names, strict, isContender);
  const queue = strict ? new LocalQueue(newSpec()) : findLocalQueue(lock, newSpec);
  return queue.acquire({ subject: lock, wait, signal, data, linger, affinity, count: 1 });
}

function queuedSpec(
  { client, path, recipe }: QueuedLock,
  names: QueueNames,
  strict: boolean,
  isContender: ((node: QueueNode) => boolean) | undefined,
): LocalQueueSpec {
  const queue: QueueSpec = { ...names, parent: path };
  const shared = isContender !== undefined;
  return {
    client,
    path,
    recipe,
    // The first attempt of a strict caller lists together with those of others.
    queue: strict ? undefined : queue,
    queueParent: path,
    shared,
    strict,
    hasContenders: (children) => {
      const nodes = queueOf(queue, children);
      return isContender ? nodes.some(isContender) : nodes.length > 1;
    },
    acquire: (first, context) =>
      waitInQueue({
        ...context,
        ...{ client, spec: queue, data: first.request.data },
        strict: strict ? { shared } : undefined,
      }),
  };
}
