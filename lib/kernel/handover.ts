import { setImmediate } from 'node:timers';
import type { Watch, ZkClient } from '../client/index.js';
import type { GrantKind, LockKind } from './types.js';
import type { FifoSet } from '../client/fifo-set.js';
import { type Grant, RESOLVED } from './grant.js';
import { NodeData } from './node-data.js';
import { Ownership } from './ownership.js';
import type { QueuePosition } from './queue-position.js';
import { retryRead } from './session-retry.js';
import { leavePlace } from './succession.js';
import { untilYielded } from './time-slice.js';
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
 *   leaving    a reader asks                                                held; deferred while it is not known whether
 *                                                                           a writer waits; closed if one waits
 *   leaving    the next turn of the event loop begins                       lingering; closed without `linger`
 *   deferred   the obstacle is over                                         held; closed if other processes wait
 *   lingering  a caller asks                                                held; deferred as above
 *   lingering  the time is over, or another process waits                   closed
 *   any        released after a revocation; the session or znode is lost    closed
 *
 * `closed`: no caller is granted the lock by this znode any more. Readers that hold it keep it; the znode is deleted
 * when the last of them has released it.
 */
type HandoverState = 'held' | 'leaving' | 'deferred' | 'lingering' | 'closed';

/** The budget: the most grants, and the most milliseconds, for which a lock stays in one process while others wait. */
const MAX_GRANTS = 512;
const MAX_TIME = 10;

/** Milliseconds. Holds that are shorter do not rewrite the holder details in the znode. */
const DESCRIBE_AFTER = 50;

/** What a handover needs to know of its lock. */
export interface HandoverSpec {
  readonly client: ZkClient;
  readonly recipe: LockKind;
  readonly path: string;
  /** The parent of the znodes of the queue in which other processes wait. */
  readonly queueParent: string;
  /** Whether callers hold the lock at the same time, as readers do. */
  readonly shared: boolean;
  /** Whether each caller has a znode of its own, see succession.ts. */
  readonly strict: boolean;
  /** Returns whether the callers here must give way to a znode among these children of it. */
  hasContenders(children: readonly string[]): boolean;
}

/** The callers of a handover: a LocalQueue. */
interface Callers {
  readonly waiters: FifoSet<Waiter<Grant>>;
  /** Called once, when the state is `closed`. */
  onClosed(): void;
}

export class Handover {
  state: HandoverState = 'held';
  readonly ownership: Ownership;
  private granted = 0;
  /** When the budget began, by `performance.now()`, and the number of grants by then. The first one is no handover. */
  private readonly budget = { since: performance.now(), granted: 1 };
  /** Whether other processes wait behind the znode. While none does, the lock can stay here for any time. */
  private contenders: 'unknown' | 'none' | 'present' | undefined;
  private contenderListing: Promise<void> | undefined;
  private contenderWatch: Watch | undefined;
  private kind: GrantKind;
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

  /** @param request the request for which the znode was created */
  constructor(
    private readonly spec: HandoverSpec,
    private readonly position: QueuePosition,
    request: Request,
    private readonly callers: Callers,
  ) {
    const { data, linger } = request;
    this.ownership = new Ownership(spec.client, spec.recipe, spec.path, position, this);
    this.last = request;
    this.described = { data: position.written?.data ?? data, linger };
    this.lingerMarked = linger > 0;
    this.node = position.written;
    this.kind = position.tokens ? 'handed-over' : 'cold';
  }

  /** Grants the lock to the first waiter, and to all waiters if the lock is shared. */
  start(): void {
    const { waiters } = this.callers;
    do waiters.first!.resolve(this.grantFor(waiters.first!.request));
    while (this.spec.shared && waiters.first);
  }

  /** Grants the lock to a caller that has just asked for it, if it need not wait at all. */
  join(request: Request): Grant | undefined {
    const open =
      this.state === 'lingering' ||
      (this.spec.shared && (this.state === 'held' || this.state === 'leaving'));
    if (!open || this.callers.waiters.size > 0 || this.obstacle()) return undefined;
    return this.grantFor(request);
  }

  /** Grants to as many waiters as the state allows. Called when the lock is free, and after a caller has queued up. */
  advance(): Promise<void> | void {
    const { ownership } = this;
    const { grants } = ownership;
    if (grants.size === 0 && (ownership.final || this.state === 'closed')) return ownership.end();
    while (this.state !== 'deferred' && this.state !== 'closed') {
      const waiter = this.callers.waiters.first;
      if (grants.size > 0 && !(this.spec.shared && waiter)) return;
      if (!waiter) return this.rest();
      // A small request for permits never overtakes a large one, which would starve.
      const fits = waiter.request.count === this.position.nodes.length;
      const obstacle = fits ? this.obstacle() : 'closed';
      if (obstacle === 'closed') return this.close();
      if (obstacle) return this.defer(obstacle);
      waiter.resolve(this.grantFor(waiter.request));
    }
  }

  /** Called by the ownership when the deletion of its znode was sent. */
  onEnded(): void {
    clearTimeout(this.describeTimer);
    clearTimeout(this.lingerTimer);
    this.contenderWatch?.remove();
    this.enter('closed');
    if (this.contenders === 'present') this.last.affinity?.forget(this.spec);
    const { ended, releasedHold } = this.ownership;
    if (this.spec.strict) leavePlace(this.position.nodes[0]!, ended!, releasedHold);
  }

  /** The only place that changes the state. */
  private enter(state: HandoverState): void {
    if (this.state === 'closed') return;
    this.state = state;
    if (state === 'closed') this.callers.onClosed();
  }

  /** Returns what stands in the way of the next grant: nothing, something to wait for, or `'closed'`. */
  private obstacle(): Promise<void> | 'closed' | undefined {
    const { ownership } = this;
    if (ownership.final || !ownership.trusted) return 'closed';
    if (ownership.tokensRunLow) this.renewal ??= this.renew();
    if (ownership.tokensUsedUp) return this.renewal;
    // No reader joins while a writer waits, or the writer would starve.
    if (this.spec.shared || this.budgetSpent) {
      const contenders = this.knownContenders();
      if (contenders === 'present') return 'closed';
      if (contenders === 'unknown') return this.findContenders();
      this.budget.since = performance.now();
      this.budget.granted = this.granted;
    }
    return untilYielded();
  }

  /** Whether the lock must go to another process now, if one waits. */
  private get budgetSpent(): boolean {
    const { since, granted } = this.budget;
    return this.granted - granted >= MAX_GRANTS || performance.now() - since >= MAX_TIME;
  }

  private defer(obstacle: Promise<void>): void {
    if (this.state === 'lingering') this.kind = 'lingering';
    this.enter('deferred');
    const proceed = () => {
      if (this.state !== 'deferred') return;
      this.enter('held');
      void this.advance();
    };
    obstacle.then(proceed, () => this.close());
  }

  private grantFor(request: Request): Grant {
    const { shared } = this.spec;
    const kind = this.state === 'lingering' ? 'lingering' : this.kind;
    this.kind = shared ? 'shared' : 'handed-over';
    this.enter('held');
    this.onJoin?.();
    this.last = request;
    clearTimeout(this.describeTimer);
    const grant = this.ownership.grant(kind, shared, request.data);
    // The second grant is the first handover. Listed now, the queue is known when the budget is spent.
    if (++this.granted === 2) void this.findContenders();
    if (!shared && request.data !== this.described.data) this.describe(request);
    return grant;
  }

  /** No grant is left, and no caller waits. */
  private rest(): Promise<void> | void {
    this.last.affinity?.onReleased(this.spec);
    if (!this.spec.shared) return this.last.linger > 0 ? this.linger() : this.ownership.end();
    this.enter('leaving');
    // Readers that came in one turn of the event loop leave in one turn, and often come again. 64 readers that do so are
    // 58 % faster than with a new znode each time.
    return new Promise((resolve) => {
      this.onJoin = resolve;
      setImmediate(() => resolve(this.state === 'leaving' ? this.linger() : this.ownership.ended));
    });
  }

  /** Keeps the znode for the next caller, if the last one asked for that. */
  private linger(): Promise<void> | void {
    const { ownership, lingerMarked } = this;
    const { linger } = this.last;
    const may = linger > 0 && !ownership.final && ownership.trusted;
    if (!may || (this.spec.shared && !lingerMarked)) return this.close();
    this.enter('lingering');
    this.lingerUntil = performance.now() + linger;
    if (this.lingerUntil < this.lingerDue) this.startLingerTimer(linger);
    ownership.watchNodes();
    this.yieldToContenders();
    if (!lingerMarked) return this.markLinger();
  }

  /** Other processes must see the linger mark first, or their tries would be refused although the lock is free. */
  private markLinger(): Promise<void> {
    clearTimeout(this.describeTimer);
    if (this.described.linger === 0) void this.writeDescription(this.last);
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
    if (this.state !== 'lingering' || this.knownContenders() === 'none') return;
    void this.findContenders().then(() => {
      if (this.state === 'lingering' && this.contenders === 'present') void this.close();
    });
  }

  private knownContenders() {
    const { spec, position } = this;
    return (this.contenders ??= spec.hasContenders(position.children) ? 'present' : 'unknown');
  }

  /** Resolves when it is known whether other processes wait. */
  private findContenders(): Promise<void> {
    if (this.knownContenders() !== 'unknown') return RESOLVED;
    return (this.contenderListing ??= this.listContenders());
  }

  private async listContenders(): Promise<void> {
    const { ownership, spec } = this;
    const { session } = this.position;
    let watch: Watch | undefined;
    try {
      const read = () => session.children(spec.queueParent, { watch: true });
      const listing = await retryRead(spec.client, session, read);
      watch = listing.watch;
      // Cleared here: a contender may arrive before the promise has settled, and then the queue is listed again.
      this.contenderListing = undefined;
      this.contenders =
        ownership.ended || spec.hasContenders(listing.children) ? 'present' : 'none';
      if (this.contenders === 'present') return watch.remove();
      this.contenderWatch = watch;
      void watch.fired.then(() => {
        if (ownership.ended) return;
        this.contenders = 'unknown';
        this.yieldToContenders();
      });
    } catch {
      watch?.remove();
      // The session has ended, or the parent is gone: the lock cannot be handed over.
      this.contenders = 'present';
    }
  }

  /** Grants the lock to no further caller. Resolves when the lock can be granted to other processes. */
  private close(): Promise<void> | void {
    if (this.ownership.grants.size === 0) return this.ownership.end();
    this.enter('closed');
  }

  /** Writes the details of the current holder into the znode: at once for the first holder, otherwise after a while. */
  private describe(request: Request): void {
    if (Buffer.compare(request.data, this.described.data) === 0) return;
    // The znode has the details of a waiter that gave up before the grant.
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
      this.ownership.renewTokens(mzxid);
    });
    // A failure matters only to a grant that needs the new zxid. The next grant tries again.
    renewal.catch(() => (this.renewal = undefined));
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
