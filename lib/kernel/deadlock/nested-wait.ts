import type { Session, ZkClient } from '../../client/index.js';
import { ProcessState } from '../../client/process-state.js';
import { type CallChain, heldLeases } from '../call-chain.js';
import type { GrantLease } from '../grant.js';
import type { NodeData } from '../node-data.js';
import type { Waiter } from '../waiter.js';

/*
 * The waits of this process that may be part of a deadlock, and their claims. A claim names a znode that a waiting call
 * chain holds. Waiters store their claims in the data of their znodes, so that other processes can find cycles. With
 * handover one znode stands for many callers, so it has the claims of all of them.
 */

/** A caller that waits, and the call chain that made the call. */
export type ChainedWaiter = Pick<Waiter<unknown>, 'request' | 'over' | 'onOver'> & {
  readonly chain: CallChain | undefined;
};

/** A queue in which callers of this process wait: a LocalQueue. */
export interface WaitQueue {
  readonly spec: { readonly client: ZkClient };
  readonly waiters: Iterable<ChainedWaiter>;
  /** Our znode in the queue of the ensemble, once another one was seen ahead of it. */
  readonly blockedNode: NodeData | undefined;
  /** The znode by which this process holds the lock that the waiters wait for. */
  readonly heldNode: string | undefined;
}

/** Milliseconds. Shorter waits are common and end by themselves. */
const BLOCKED_AFTER = 400;

const clock = new ProcessState(() => ({ latest: 0 }));

/** Returns the current time by the clock of this process, and never the same time twice. */
function uniqueTime(): number {
  const { current } = clock;
  return (current.latest = Math.max(performance.now(), current.latest + 0.001));
}

/** The wait of a call chain that holds a lock, since the detector first saw it. */
export class NestedWait {
  /** When it was first seen, by the clock of this process. No two waits of a process have the same time. */
  readonly from = uniqueTime();
  /** The same by the clock of the machine. */
  readonly since = performance.timeOrigin + this.from;
  /** When a cycle is searched from it next, by the clock of this process. */
  due = 0;
  /** The deadlock that was reported last. */
  reported: string | undefined;

  constructor(
    readonly waiter: ChainedWaiter,
    readonly queue: WaitQueue,
    private readonly chain: CallChain,
  ) {}

  get blocked(): boolean {
    return performance.now() - this.from >= BLOCKED_AFTER;
  }

  get held(): readonly GrantLease[] {
    return heldLeases(this.chain);
  }

  /** Returns whether a claim is of this wait. A wait of another process may have begun at the same time. */
  made({ node, since }: Claim): boolean {
    return (
      since === this.since &&
      this.held.some(({ grant }) => grant.ownership.position.nodes.includes(node))
    );
  }

  /** Our znode in the queue while it waits there. */
  get blockedNode(): NodeData | undefined {
    const { blockedNode } = this.queue;
    return blockedNode?.waiting ? blockedNode : undefined;
  }

  /**
   * Returns a claim: the call chain that waits here holds a znode.
   *
   * @param behind the znode that it waits behind, if another znode of this process has the claim
   */
  claim(node: string, key: string, behind?: string): Claim {
    const { wait } = this.waiter.request;
    const until = wait === Infinity ? undefined : Math.round(this.since + wait);
    return { node, key, since: this.since, until, behind };
  }
}

/** A znode that is held by a chain that waits, and a session that can read it. */
export interface HeldNode {
  readonly claim: Claim;
  readonly session: Session;
}

/** Waits of this process, by the znode of this process that they wait behind. */
export type WaitsByNode = ReadonlyMap<string, readonly NestedWait[]>;

export function byHeldNode(waits: readonly NestedWait[]): WaitsByNode {
  const found = new Map<string, NestedWait[]>();
  for (const wait of waits) {
    const { heldNode } = wait.queue;
    if (heldNode === undefined) continue;
    const others = found.get(heldNode);
    if (others) others.push(wait);
    else found.set(heldNode, [wait]);
  }
  return found;
}

/**
 * Returns the znodes that the chains of `waits` hold and, transitively, those held by the chains of this process that
 * wait for one of them.
 */
export function heldNodesOf(
  waits: readonly NestedWait[],
  here: WaitsByNode,
): Map<string, HeldNode> {
  const found = new Map<string, HeldNode>();
  const pending = waits.map((wait) => ({ wait, behind: undefined as string | undefined }));
  for (const { wait, behind } of pending) {
    for (const { grant, key } of wait.held) {
      const { session, nodes } = grant.ownership.position;
      for (const node of nodes) {
        if (found.has(node)) continue;
        found.set(node, { claim: wait.claim(node, key, behind), session });
        for (const other of here.get(node) ?? []) pending.push({ wait: other, behind: node });
      }
    }
  }
  return found;
}

/** States that a waiting call chain holds a znode. Published in znode data, for the detectors of other processes. */
export interface Claim {
  /** The znode that is held. No other znode ever has the same name. */
  readonly node: string;
  /** The key of that lock for its holder. */
  readonly key: string;
  /** When the wait began, in milliseconds by the clock of the machine. */
  readonly since: number;
  /** When the wait times out, by the same clock; undefined for never. */
  readonly until?: number;
  /** The znode that the chain waits behind, if it is another one of the same process. */
  readonly behind?: string;
}

/** The last time that a Date can have, milliseconds. */
const LAST_TIME = 8.64e15;
/** The most claims in a znode, to keep it small. A cycle through further ones is not found. */
const MAX_CLAIMS = 64;

/** @param data holder details */
export function withClaims(data: Uint8Array, claims: readonly Claim[]): Uint8Array {
  if (claims.length === 0) return data;
  const details = JSON.parse(Buffer.from(data).toString()) as object;
  return Buffer.from(JSON.stringify({ ...details, holds: claims.slice(0, MAX_CLAIMS) }));
}

/** Returns the claims in the data of a znode; none for a znode of another library. */
export function claimsIn(data: Buffer): readonly Claim[] {
  try {
    const { holds } = JSON.parse(data.toString()) as { holds?: unknown };
    return Array.isArray(holds) ? holds.filter(isClaim).slice(0, MAX_CLAIMS) : [];
  } catch {
    return [];
  }
}

function isClaim(claim: unknown): claim is Claim {
  if (typeof claim !== 'object' || claim === null) return false;
  const { node, key, since, until, behind } = claim as Partial<Record<keyof Claim, unknown>>;
  return (
    typeof node === 'string' &&
    typeof key === 'string' &&
    typeof since === 'number' &&
    (until === undefined || (typeof until === 'number' && Math.abs(until) <= LAST_TIME)) &&
    (behind === undefined || typeof behind === 'string')
  );
}
