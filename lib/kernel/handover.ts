import { setImmediate } from 'node:timers';
import type { ZkClient } from '../client/index.js';
import type { GrantKind, Recipe } from './types.js';
import { ContenderWatch } from './contender-watch.js';
import type { FifoSet } from '../client/fifo-set.js';
import type { Grant } from './grant.js';
import { HandoverBudget } from './handover-budget.js';
import { NodeData } from './node-data.js';
import { Ownership } from './ownership.js';
import type { QueuePosition } from './queue.js';
import type { Request, Waiter } from './waiter.js';

/*
 * The grants that one znode gives to the callers of this process, one after the other, or many at a time if the lock is
 * shared by readers (lock cohorting: Dice, Marathe and Shavit):
 *
 *   state      event                                                        next state
 *   held       released, and a caller waits                                 held
 *   held       released, and a caller waits, but the budget is spent, the
 *              tokens are used up, or it must yield to the event loop       deferred
 *   held       released, and no caller waits                                lingering; closed without `linger`
 *   held       the last reader has released                                 leaving
 *   leaving    a reader joins                                               held
 *   leaving    the next turn of the event loop begins                       lingering; closed without `linger`
 *   deferred   the obstacle is over                                         held; closed if other processes wait
 *   lingering  a caller asks                                                held; deferred as above
 *   lingering  the time is over, or another process waits                   closed
 *   any        released after a revocation; the session or znode is lost    closed
 *
 * `closed`: no caller is granted the lock by this znode any more. Readers that hold it keep it; the znode is deleted
 * when the last of them has released it.
 */

/** Milliseconds. Holds that are shorter do not rewrite the holder details in the znode. */
const DESCRIBE_AFTER = 50;

/** What a handover needs to know of its lock. */
export interface HandoverSpec {
  readonly client: ZkClient;
  readonly recipe: Recipe;
  readonly path: string;
  /** The parent of the znodes of the queue in which other processes wait. */
  readonly queueParent: string;
  /** Whether callers hold the lock at the same time, as readers do. */
  readonly shared: boolean;
  /** Whether these children of it include a znode that the callers here must give way to. */
  hasContenders(children: readonly string[]): boolean;
}

export class Handover extends Ownership {
  state: 'held' | 'leaving' | 'deferred' | 'lingering' | 'closed' = 'held';
  /** When the lock was granted to this process. */
  private readonly since = performance.now();
  private budget: HandoverBudget | undefined;
  private contenders: ContenderWatch | undefined;
  private kind: GrantKind = 'cold';
  /** The request of the last grant. */
  private last: Request;
  /** What was last written into the znode, or is being written. */
  private described: Pick<Request, 'data' | 'linger'>;
  private describeTimer: NodeJS.Timeout | undefined;
  private node: NodeData | undefined;
  /** True once the server has confirmed the linger mark in the znode. */
  private lingerMarked: boolean;
  private lingerUntil = 0;
  /**
   * When the timer fires. One timer serves many lingers, because most of them end early. A lingering lock is 10 %
   * faster than with a timer for each.
   */
  private lingerDue = Infinity;
  private lingerTimer: NodeJS.Timeout | undefined;
  private renewal: Promise<void> | undefined;
  /** Resolves the release of the last reader, because another one has joined. */
  private onJoin: (() => void) | undefined;

  /**
   * Grants the lock to the first waiter, and to all waiters if the lock is shared.
   *
   * @param request the request for which the znode was created
   * @param queue a LocalQueue. Its `onClosed` is called once, when the state is `closed`
   */
  constructor(
    private readonly spec: HandoverSpec,
    position: QueuePosition,
    request: Request,
    private readonly queue: { readonly waiters: FifoSet<Waiter<Grant>>; onClosed(): void },
  ) {
    super(spec.client, spec.recipe, spec.path, position);
    const { data, linger } = request;
    this.last = request;
    this.described = { data: position.written?.data ?? data, linger };
    this.lingerMarked = linger > 0;
    this.node = position.written;
    const { waiters } = queue;
    do waiters.first!.resolve(this.grantFor(waiters.first!.request));
    while (spec.shared && waiters.first);
  }

  /** Grants the lock to a caller that has just asked for it, if it need not wait at all. */
  join(request: Request): Grant | undefined {
    const open =
      this.state === 'lingering' ||
      (this.spec.shared && (this.state === 'held' || this.state === 'leaving'));
    if (!open || this.queue.waiters.size > 0 || this.obstacle()) return undefined;
    return this.grantFor(request);
  }

  /** Grants to as many queued waiters as the state allows. Runs when the lock is free, and after each enqueue. */
  override advance(): Promise<void> | void {
    const { spec } = this;
    const { waiters } = this.queue;
    if (this.grants.size === 0 && (this.final || this.state === 'closed')) return this.end();
    while (this.state !== 'deferred' && this.state !== 'closed') {
      const busy = this.grants.size > 0;
      if (busy && !spec.shared) return;
      const waiter = waiters.first;
      // A small request for permits never overtakes a large one, which would starve.
      if (waiter && waiter.request.count !== this.position.nodes.length) return this.close();
      if (!waiter) {
        if (busy) return;
        if (spec.shared) return this.leave();
        return this.last.linger > 0 ? this.linger() : this.end();
      }
      const obstacle = this.obstacle();
      if (obstacle === 'closed') return this.close();
      if (obstacle) return this.defer(obstacle);
      waiter.resolve(this.grantFor(waiter.request));
    }
  }

  protected override onEnded(): void {
    clearTimeout(this.describeTimer);
    clearTimeout(this.lingerTimer);
    this.contenders?.stop();
    this.enterClosed();
  }

  private enterClosed(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    this.queue.onClosed();
  }

  /** Returns what stands in the way of the next grant: nothing, something to wait for, or `'closed'`. */
  private obstacle(): Promise<void> | 'closed' | undefined {
    if (this.final || !this.trusted) return 'closed';
    if (this.tokensRunLow) this.renewal ??= this.renew();
    if (this.tokensUsedUp) return this.renewal;
    const contenders = this.contenderWatch();
    if (this.spec.shared) {
      // No reader joins while a writer waits, or the writer would starve.
      if (contenders.state === 'present') return 'closed';
      if (contenders.state === 'unknown') return contenders.check();
    }
    this.budget ??= new HandoverBudget(this.since);
    if (this.budget.spent) {
      if (contenders.state === 'present') return 'closed';
      if (contenders.state === 'unknown') return contenders.check();
      this.budget.restart();
    }
    return this.budget.untilYielded();
  }

  private defer(obstacle: Promise<void>): void {
    if (this.state === 'lingering') this.kind = 'lingering';
    this.state = 'deferred';
    const proceed = () => {
      if (this.state !== 'deferred') return;
      this.state = 'held';
      void this.advance();
    };
    obstacle.then(proceed, () => this.close());
  }

  private grantFor(request: Request): Grant {
    const { shared } = this.spec;
    const kind = this.state === 'lingering' ? 'lingering' : this.kind;
    this.kind = shared ? 'shared' : 'handed-over';
    this.state = 'held';
    this.onJoin?.();
    this.last = request;
    clearTimeout(this.describeTimer);
    this.budget?.count();
    const grant = this.grant(kind, shared, request.data);
    // From the second grant on it matters whether other processes wait. The state is known when the budget is spent.
    if (this.granted === 2) void this.contenderWatch().check();
    if (!shared && request.data !== this.described.data) this.describe(request);
    return grant;
  }

  /** No reader is left here. */
  private leave(): Promise<void> | void {
    if (this.state === 'lingering' || this.state === 'leaving') return;
    this.state = 'leaving';
    // Readers that came in one turn of the event loop leave in one turn, and often come again. 64 readers that do so are
    // 58 % faster than with a new znode each time.
    return new Promise((resolve) => {
      this.onJoin = resolve;
      setImmediate(() => resolve(this.state === 'leaving' ? this.linger() : this.ended));
    });
  }

  /** Keeps the znode for the next caller, if the last one asked for that. */
  private linger(): Promise<void> | void {
    if (this.state === 'lingering') return;
    const { linger } = this.last;
    const unmarked = !this.lingerMarked;
    if (linger === 0 || this.final || !this.trusted || (this.spec.shared && unmarked)) {
      return this.close();
    }
    this.state = 'lingering';
    this.lingerUntil = performance.now() + linger;
    if (this.lingerUntil < this.lingerDue) this.startLingerTimer(linger);
    this.watchNodes();
    this.yieldToContenders();
    if (!unmarked) return;
    clearTimeout(this.describeTimer);
    if (this.described.linger === 0) void this.writeDescription(this.last);
    // Other processes must see the mark first, or their tries would be refused although the lock is free.
    return this.node!.settled().then(() => {
      if (this.state === 'lingering' && !this.lingerMarked) return this.close();
    });
  }

  private startLingerTimer(milliseconds: number): void {
    clearTimeout(this.lingerTimer);
    this.lingerDue = performance.now() + milliseconds;
    this.lingerTimer = setTimeout(() => {
      this.lingerDue = Infinity;
      if (this.state !== 'lingering') return;
      const left = this.lingerUntil - performance.now();
      if (left > 0) this.startLingerTimer(left);
      else void this.close();
    }, milliseconds).unref();
  }

  private yieldToContenders(): void {
    const contenders = this.contenderWatch();
    if (this.state !== 'lingering' || contenders.state === 'none') return;
    void contenders.check().then(() => {
      if (this.state === 'lingering' && contenders.state === 'present') void this.close();
    });
  }

  private contenderWatch(): ContenderWatch {
    const { client, spec, position } = this;
    this.contenders ??= new ContenderWatch(client, position.session, {
      queueParent: spec.queueParent,
      children: position.children,
      hasContenders: (children) => spec.hasContenders(children),
      onArrival: () => this.yieldToContenders(),
    });
    return this.contenders;
  }

  /** Grants the lock to no further caller. Resolves when the lock can be granted to other processes. */
  private close(): Promise<void> | void {
    if (this.grants.size === 0) return this.end();
    this.enterClosed();
  }

  /** Writes the details of the current holder into the znode: at once for the first holder, otherwise after a while. */
  private describe(request: Request): void {
    if (Buffer.compare(request.data, this.described.data) === 0) return;
    // Another waiter, which has left, was the first when the znode was created.
    if (this.granted === 1) return void this.writeDescription(request);
    const write = () => void this.writeDescription(request);
    this.describeTimer = setTimeout(write, DESCRIBE_AFTER).unref();
  }

  private async writeDescription(request: Request): Promise<void> {
    try {
      this.described = request;
      await this.write(request);
    } catch {
      // The znode keeps the details of the previous holder.
    }
  }

  /** Rewrites the data of the znode for a new zxid, long before the tokens of the current one are used up. */
  private renew(): Promise<void> {
    const renewal = this.write(this.described).then((mzxid) => {
      this.renewal = undefined;
      this.renewTokens(mzxid);
    });
    // A failure matters only to a grant that needs the new zxid.
    renewal.catch(() => {});
    return renewal;
  }

  private async write({ data, linger }: Pick<Request, 'data' | 'linger'>): Promise<number> {
    const { session, nodes } = this.position;
    this.node ??= new NodeData(session, nodes[0]!, this.described.data);
    if (linger === 0) this.lingerMarked = false;
    const { mzxid } = await this.node.write(data);
    // A later write that removes the mark may be under way.
    this.lingerMarked = linger > 0 && this.described.linger > 0;
    return mzxid;
  }
}
