import type { Session, ZkClient } from '../../client/index.js';
import type { AcquireOptions } from '../lease.js';
import type { Recipe } from '../types.js';
import { currentChain, runDetached } from './call-chain.js';
import { reportDeadHolder } from './dead-holder.js';
import { watchForDeadlock } from './deadlock/detector.js';
import { FifoSet } from './fifo-set.js';
import type { Grant } from './grant.js';
import { Handover, type HandoverSpec } from './handover.js';
import { DEFAULT_HOLDER_DATA, holderData, type NodeData, withLingerMark } from './node-data.js';
import { type QueueNames, type QueueNode, queueOf } from './node-names.js';
import { type BlockingNode, type QueuePosition, Tries, waitInQueue } from './queue.js';
import {
  busy,
  cancelled,
  NO_WAITERS,
  type Request,
  returnController,
  takeController,
  Waiter,
  type Wanted,
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
  /** Acquires znodes for the first waiter. */
  acquire(first: Waiter<Grant>, options: AcquireContext): Promise<QueuePosition>;
  /** Called when the queue comes into use. Returns a function that is called when it is idle again. */
  use?(): () => void;
}

export interface AcquireContext {
  /** Aborts when the first waiter does not want this any more. */
  readonly signal: AbortSignal;
  readonly tries: Tries;
  onBlocked(node: NodeData): void;
  onAhead(node: BlockingNode, session: Session): string | undefined;
}

type LocalQueues = Map<string, LocalQueue>;

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
  if (!queues) queuesInUse.set(client, (queues = new Map()));
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
  private serving = false;
  /** Aborts the acquisition that is under way. */
  private acquiring: AbortController | undefined;
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
    return holds ? handover.position.nodes[0] : undefined;
  }

  /** Returns the grant itself if the caller need not wait at all. */
  acquire(request: Request): Promise<Grant> | Grant {
    const { wanted, signal, wait } = request;
    if (signal?.aborted) return Promise.reject(cancelled(wanted, signal));
    const { spec, handover } = this;
    const grant = handover?.join(request);
    if (grant) return grant;
    if (wait === 0 && !spec.shared && this.refusesTries) return Promise.reject(busy(wanted));
    if (!this.used) {
      this.endUse = spec.use?.();
      this.used = true;
      this.inUse?.set(this.name, this);
    }
    const waiter = new Waiter<Grant>(request, this.leave);
    waiter.chain = currentChain();
    this.waiters.add(waiter);
    if (wait === 0) this.tries.add(waiter);
    else if (waiter.chain && !spec.servesPermits) watchForDeadlock(this);
    if (handover && handover.state !== 'closed' && !spec.servesPermits) void handover.advance();
    else if (!this.serving) {
      this.serving = true;
      // The loop outlives this caller and must not count as a holder of the caller's locks.
      runDetached(() => void this.serve());
    }
    return waiter.promise;
  }

  /** Whether another caller of this process holds the lock or waits for it without a limit. */
  private get refusesTries(): boolean {
    const { state } = this.handover ?? {};
    const held = state !== undefined && state !== 'closed' && state !== 'lingering';
    // Queued tries do not show that the lock is held: it may have been released since they were blocked.
    return !this.spec.servesPermits && (held || this.waiters.size > this.tries.size);
  }

  private async serve(): Promise<void> {
    for (let first; (first = this.waiters.first);) {
      const acquiring = takeController();
      const { signal } = (this.acquiring = acquiring);
      const { count, wanted } = first.request;
      this.acquiredCount = count;
      try {
        const position = await this.spec.acquire(first, {
          signal,
          tries: this.tries,
          onBlocked: (node) => (this.blockedNode = node),
          onAhead: (node, session) => reportDeadHolder(this.spec.client, wanted, node, session),
        });
        this.acquiring = undefined;
        // The signal of a request for permits may still have dependent signals of AbortSignal.any().
        if (!this.spec.servesPermits) returnController(acquiring);
        const handover = this.handOut(position, first.request);
        if (!this.spec.servesPermits) await handover?.closed;
      } catch (error) {
        // After an abort no caller waits for this acquisition any more. Later callers need another one.
        if (!signal.aborted) for (const waiter of this.waiters) waiter.reject(error);
      }
    }
    this.serving = false;
    this.endIfIdle();
  }

  /** Hands znodes to the first waiters, who may have changed meanwhile, and deletes what none of them can use. */
  private handOut({ nodes, ...position }: QueuePosition, request: Request): Handover | undefined {
    let rest = nodes;
    for (let first; (first = this.waiters.first) && first.request.count <= rest.length;) {
      const own = { ...position, nodes: rest.slice(0, first.request.count) };
      rest = rest.slice(first.request.count);
      this.open++;
      const handover = new Handover(this.spec, own, this.waiters, request);
      this.handover = handover;
      void handover.closed.then(() => {
        this.open--;
        this.endIfIdle();
      });
      if (this.tries.size > 0 && !this.spec.shared && !this.spec.servesPermits) {
        for (const waiter of this.tries.upTo(Infinity)) waiter.blocked();
      }
      if (rest.length === 0) return handover;
    }
    for (const node of rest) void position.session.guaranteedDelete(node);
    return undefined;
  }

  private readonly leave = (waiter: Waiter<Grant>): void => {
    this.waiters.delete(waiter);
    if (waiter.request.wait === 0) this.tries.delete(waiter);
    if (this.waiters.first?.request.count !== this.acquiredCount) {
      this.acquiring?.abort(NO_WAITERS);
    }
  };

  private endIfIdle(): void {
    if (this.serving || this.open > 0 || this.waiters.size > 0) return;
    if (this.inUse?.get(this.name) === this) this.inUse.delete(this.name);
    this.used = false;
    this.endUse?.();
  }
}

/** A lock whose callers wait in one queue of znodes: a mutex, a read lock or a write lock. */
interface QueuedLock extends Wanted {
  readonly client: ZkClient;
  readonly path: string;
  readonly recipe: Recipe;
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
  const { wait = Infinity, signal, details, onDeadlock, fairness } = options;
  const strict = fairness === 'strict';
  const linger = strict ? 0 : (options.linger ?? 0);
  const plain = details === undefined ? DEFAULT_HOLDER_DATA : holderData(details);
  const data = linger > 0 ? withLingerMark(plain) : plain;
  const queue = strict
    ? new LocalQueue(specOf(lock, names, isContender))
    : findLocalQueue(lock, () => specOf(lock, names, isContender));
  return queue.acquire({ wanted: lock, wait, signal, data, linger, count: 1, onDeadlock });
}

function specOf(
  { client, path, recipe }: QueuedLock,
  names: QueueNames,
  isContender: ((node: QueueNode) => boolean) | undefined,
): LocalQueueSpec {
  const own = { ...names, parent: path };
  return {
    client,
    path,
    recipe,
    queueParent: path,
    shared: isContender !== undefined,
    hasContenders: (children) => {
      const queue = queueOf(own, children);
      return isContender ? queue.some(isContender) : queue.length > 1;
    },
    acquire: (first, options) => waitInQueue(client, { ...own, data: first.request.data }, options),
  };
}
