import { performance } from 'node:perf_hooks';
import type { TransactionOperation, TransactionResults, ZkClient } from '../client/index.js';
import { ProcessState } from '../client/process-state.js';
import { ShortLivedMap } from '../client/short-lived-map.js';
import { runWrite } from '../client/zk-client.js';
import { LeaseLostError, LockRevokedError } from './errors.js';
import type { GrantKind, LockKind } from './types.js';
import { FifoSet } from '../client/fifo-set.js';
import { DelayedWatches, WATCH_AFTER } from './delayed-watches.js';
import { Grant, RESOLVED } from './grant.js';
import { REVOKE_MESSAGE } from './node-data.js';
import { NodeWatch } from './node-watch.js';
import type { QueuePosition } from './queue-position.js';
import type { ReleasedHold } from './succession.js';

/*
 * The ownership of a lock by this process, for the lifetime of its znodes:
 *
 *              grant            the last grant is returned
 *     free ───────────▶ held ──────────────────────────────▶ free
 *       │                 │
 *       │ end             │ the session ends or cannot be trusted; a znode is deleted
 *       ▼                 ▼
 *     ended ◀─────────── lost
 *
 * When it is free again, its Successor decides what follows. Without one it ends.
 */

/** The number of tokens of one zxid. */
const GRANTS_PER_ZXID = 1024;

/** What this process owns. */
const owned = new ProcessState(() => ({
  /** By the names of the znodes. No two znodes have the same unique id in their names. */
  byNode: new ShortLivedMap<string, Ownership>(),
  delayedWatches: new DelayedWatches(),
}));

/** Returns what this process owns by a znode; undefined for a znode that waits, or of another process. */
export function ownershipBy(name: string): Ownership | undefined {
  return owned.current.byNode.get(name);
}

/** Decides what follows when no grant is left: a Handover. */
interface Successor {
  /** Called when the last grant was returned. The caller that returned it waits for the result. Default: `end()`. */
  advance?(): Promise<void> | void;
  /** Called once, when the deletion of the znodes was sent. */
  onEnded(): void;
}

export class Ownership {
  /** When the last grant was returned, by the clock of the machine. */
  freeSince = 0;
  readonly grants = new FifoSet<Grant>();
  /** Set when the deletion of the znodes was sent. Resolves when they are gone, or left to the background. */
  ended: Promise<void> | undefined;
  /** Whether no grant may follow the current ones. */
  final = false;
  readonly watchAt = performance.now() + WATCH_AFTER;
  private tokenZxid: number;
  private tokens = 0;
  private nodeWatch: NodeWatch | undefined;
  private unsubscribe: () => void;
  private readonly owned = owned.current;

  constructor(
    readonly client: ZkClient,
    readonly recipe: LockKind,
    readonly path: string,
    readonly position: QueuePosition,
    private readonly successor?: Successor,
  ) {
    this.tokenZxid = position.zxid;
    this.tokens = position.tokens ?? 0;
    for (const node of position.nodes) this.owned.byNode.set(nameOf(node), this);
    this.unsubscribe = position.session.onUntrusted((reason) => this.distrust(reason));
    this.owned.delayedWatches.add(this);
  }

  get trusted(): boolean {
    return !this.ended && this.position.session.trusted;
  }

  /**
   * Makes a grant. An exclusive one has a token above all earlier ones; shared ones have the token of the first.
   *
   * A sequence number would be no token: it starts again with a new parent.
   */
  grant(kind: GrantKind = 'cold', shared = false, data?: Uint8Array): Grant {
    const nth = shared ? this.tokens : this.tokens++;
    const token = BigInt(this.tokenZxid) * BigInt(GRANTS_PER_ZXID) + BigInt(nth);
    const grant = new Grant(this, token, kind, data);
    this.grants.add(grant);
    return grant;
  }

  /**
   * Takes a grant back. Resolves when the znodes are deleted, or their deletion is left to the background; at once if the
   * lock stays here.
   */
  returned(grant: Grant): Promise<void> {
    this.grants.delete(grant);
    if (this.ended || this.grants.size > 0) return this.ended ?? RESOLVED;
    this.freeSince = Date.now();
    const freed = this.successor?.advance ? this.successor.advance() : this.end();
    return this.ended ?? (freed || RESOLVED);
  }

  endAfterGrants(): void {
    this.final = true;
  }

  /** Sends the deletion of the znodes. Idempotent. */
  end(): Promise<void> {
    if (this.ended) return this.ended;
    const { session, nodes } = this.position;
    this.owned.delayedWatches.delete(this);
    this.nodeWatch?.stop();
    this.unsubscribe();
    for (const node of nodes) this.owned.byNode.delete(nameOf(node));
    // Sent in this turn, before the create with which the next waiter of this process queues up.
    this.ended =
      nodes.length === 1
        ? session.guaranteedDelete(nodes[0]!)
        : Promise.all(nodes.map((node) => session.guaranteedDelete(node))).then(() => {});
    this.successor?.onEnded();
    return this.ended;
  }

  transaction<const T extends readonly TransactionOperation[]>(
    guards: readonly string[],
    operations: T,
    assertHeld: () => void,
  ): Promise<TransactionResults<T>> {
    return runWrite(this.client, (session) => {
      assertHeld();
      return session.guardedTransaction(operations, guards);
    });
  }

  watchNodes(): void {
    if (this.nodeWatch || this.ended) return;
    this.owned.delayedWatches.delete(this);
    this.nodeWatch = new NodeWatch(this.client, this.position, {
      deleted: (node) => this.lose(new Error(`a client deleted its znode ${node}`)),
      // A request for revocation may be older than the watch.
      read: (data) => data.equals(REVOKE_MESSAGE) && this.revoke(),
    });
  }

  /** Whether half of the tokens of the current zxid are used. */
  get tokensRunLow(): boolean {
    return this.tokens * 2 >= GRANTS_PER_ZXID;
  }

  get tokensUsedUp(): boolean {
    return this.tokens >= GRANTS_PER_ZXID;
  }

  /** The hold that the next one of this session may continue; undefined if it must list the queue. */
  get releasedHold(): ReleasedHold | undefined {
    const { final, tokens, tokenZxid: zxid, recipe } = this;
    if (final || recipe === 'read' || this.tokensUsedUp) return undefined;
    return { zxid, tokens };
  }

  /** Continues the tokens from a later change of the znode. */
  renewTokens(zxid: number): void {
    this.tokenZxid = zxid;
    this.tokens = 0;
  }

  private revoke(): void {
    this.final = true;
    const reason = new LockRevokedError(
      `a client requested the revocation of the lease on ${this.path}`,
    );
    for (const grant of this.grants) grant.revoke(reason);
    if (this.grants.size === 0) void this.end();
  }

  private distrust(reason: Error): void {
    const { session } = this.position;
    if (!session.alive || [...this.grants].some(({ released }) => !released)) {
      this.lose(reason);
    } else if (this.grants.size > 0) {
      // A lock that is kept only by `holdAtLeast` survives a suspended connection.
      this.final = true;
      this.unsubscribe = session.onLost((end) => this.lose(end));
    } else {
      void this.end();
    }
  }

  /**
   * Ends the grants if the session is not trusted. The session notifies one ownership after the other, so code that runs
   * in between calls this to see the end of its lease.
   */
  noticeLoss(): void {
    const { doubt } = this.position.session;
    if (doubt && !this.ended) this.distrust(doubt);
  }

  /** Ends all grants as lost, and deletes the znodes. */
  lose(cause: Error): void {
    if (this.ended) return;
    const message = `the lease on ${this.path} was lost: ${cause.message}`;
    const reason = new LeaseLostError(message, { cause });
    const lost = [...this.grants];
    this.grants.clear();
    this.final = true;
    for (const grant of lost) grant.end('lost', reason);
    void this.end();
    for (const grant of lost) grant.notifyLoss();
  }
}

const nameOf = (node: string) => node.slice(node.lastIndexOf('/') + 1);
