import type { ZkClient } from '../../client/index.js';
import type { GrantKind } from '../diagnostics/index.js';
import { AT_ONCE } from './fencing-token.js';
import { LeaseLostError, LockRevokedError } from '../errors.js';
import { GRANTS_PER_ZXID, fencingToken } from './fencing-token.js';
import { Grant, type Recipe } from './grant.js';
import { NodeWatch } from './node-watch.js';
import type { Place } from './queue.js';
import { Roster } from './fifo-set.js';

/**
 * What a process has of a lock as long as its nodes stand: it may grant it to one after another, or,
 * where the lock is shared, to several at a time. It is over when its nodes are given back, or lost
 * with its session, by somebody who deletes them, or by time.
 */
export class Tenure {
  /** Resolves when the nodes' deletion was sent. */
  readonly over: Promise<void>;
  private readonly holding = new Roster<Grant>();
  private unsubscribe: () => void;
  private readonly watch: NodeWatch;
  private markOver!: () => void;
  /** Since it is over: resolves when its nodes are gone, or left to the background. */
  givenBack: Promise<void> | undefined;
  private revoked: LockRevokedError | undefined;
  private last = false;
  private reason: LeaseLostError | undefined;
  private base: number;
  private granted = 0;

  /**
   * @param onFree called when the last of its grants was returned; default: it is over then. What it
   *   returns, the one who returned that grant waits for
   */
  constructor(
    readonly client: ZkClient,
    readonly recipe: Recipe,
    readonly path: string,
    readonly place: Place,
    private readonly onFree: (tenure: Tenure) => Promise<void> | void = (tenure) =>
      tenure.giveBack(),
  ) {
    this.base = place.pzxid;
    this.over = new Promise((resolve) => (this.markOver = resolve));
    this.unsubscribe = place.session.onUntrusted((reason) => this.doubt(reason));
    this.watch = new NodeWatch(client, place, {
      gone: (node) => this.lose(new Error(`somebody deleted ${node}`)),
      revoked: () => this.revoke(),
    });
  }

  /** Somebody holds the lock by it, or it is kept taken by `holdAtLeast`. */
  get occupied(): boolean {
    return this.holding.size > 0;
  }

  /** Whether its nodes may stay for who comes next. What was asked back is not handed on. */
  get staysOn(): boolean {
    return !this.givenBack && !this.revoked && !this.last;
  }

  /** Whether it may grant once more: the session's clock is read, since no answer of the ensemble stands behind that. */
  get grantsOn(): boolean {
    return this.staysOn && this.trusted;
  }

  get trusted(): boolean {
    return !this.reason && this.place.session.trusted;
  }

  /** Half of its tokens are used up: see {@link renew}. */
  get runningOut(): boolean {
    return this.granted * 2 >= GRANTS_PER_ZXID;
  }

  /** Another grant needs a new zxid for its token. */
  get exhausted(): boolean {
    return this.granted >= GRANTS_PER_ZXID;
  }

  /** The next grant, with a token above those before it. */
  grant(kind?: GrantKind): Grant {
    const grant = new Grant(this, fencingToken(this.base, this.granted++), kind);
    this.holding.add(grant);
    return grant;
  }

  /** One of many grants at a time: they exclude nobody of each other, and have one token. */
  share(kind: GrantKind): Grant {
    const grant = new Grant(this, fencingToken(this.base), kind);
    this.holding.add(grant);
    return grant;
  }

  /** Tokens go on from this transaction: the latest change of its node. */
  renew(zxid: number): void {
    this.base = zxid;
    this.granted = 0;
  }

  /** It ends with the present grants. */
  endAfter(): void {
    this.last = true;
  }

  /** From now on it is noticed at once what others do to its nodes. */
  watchNodes(): void {
    this.watch.start();
  }

  /** Resolves when the lock can be had by others, or the deletion is left to the background. */
  returned(grant: Grant): Promise<void> {
    this.holding.delete(grant);
    const freed = this.holding.size === 0 && !this.givenBack && this.onFree(this);
    return this.givenBack ?? (freed || AT_ONCE);
  }

  /** Idempotent. */
  giveBack(): Promise<void> {
    this.givenBack ??= this.discard();
    return this.givenBack;
  }

  private async discard(): Promise<void> {
    const { session, nodes } = this.place;
    // Sent here, so that it goes ahead of the create with which the next local waiter queues up.
    const discarded = nodes.map((node) => session.discard(node));
    this.unsubscribe();
    this.watch.stop();
    this.markOver();
    for (const answered of discarded) await answered;
  }

  private revoke(): void {
    this.revoked ??= new LockRevokedError(`somebody asked for the lease on ${this.path}`);
    for (const grant of this.holding) grant.revoke(this.revoked);
    if (!this.occupied && !this.givenBack) void this.onFree(this);
  }

  /** What is kept taken for nobody's use needs no trust, only its session; nobody else is granted anything by it. */
  private doubt(reason: Error): void {
    const { session } = this.place;
    if (!session.alive || [...this.holding].some(({ released }) => !released)) {
      this.lose(reason);
    } else if (this.occupied) {
      this.endAfter();
      this.unsubscribe = session.onLost((end) => this.lose(end));
    } else {
      void this.giveBack();
    }
  }

  private lose(cause: Error): void {
    if (this.givenBack) return;
    const message = `the lease on ${this.path} was lost: ${cause.message}`;
    this.reason = new LeaseLostError(message, { cause });
    const holding = [...this.holding];
    this.holding.clear();
    for (const grant of holding) grant.end('lost', this.reason);
    void this.giveBack();
    for (const grant of holding) grant.tellLoss();
  }
}
