import { AsyncLocalStorage } from 'node:async_hooks';
import type { ZkClient } from '../../client/index.js';
import type { Grant, GrantLease, Recipe } from './grant.js';
import type { Lease } from '../lease.js';
import type { Term } from '../term.js';

/*
 * Who holds what and leads what, along the asynchronous call chain: what the thread is to Curator's reentrant
 * locks. A chain sees the leases of the calls it runs inside of, innermost first. A lease that was
 * released is not held by any chain, even if that chain continues. This depends on the lease of each
 * link and not by its grant: another chain may hold the same grant by another lease.
 */

/** A lease, and the right that it is a lease on. */
export interface Holding {
  readonly grant: Grant;
  readonly lease: GrantLease;
}

export interface Link {
  readonly lease?: Lease;
  /** One, or those of a multi-lock. */
  readonly holdings: readonly Holding[];
  readonly term?: Term;
  readonly outer: Link | undefined;
}

const chain = new AsyncLocalStorage<Link | undefined>();

/** Runs `fn` as the holder of `lease`. */
export function runHolding<T>(lease: Lease, holdings: readonly Holding[], fn: () => T): T {
  return chain.run({ lease, holdings, outer: chain.getStore() }, fn);
}

/** Runs `fn` as the leader of `term`. */
export function runLeading<T>(term: Term, fn: () => T): T {
  return chain.run({ term, holdings: [], outer: chain.getStore() }, fn);
}

/** The grant of one of `recipes` on `path` that this chain holds or has lost, and has not released. */
export function grantInChain(
  client: ZkClient,
  path: string,
  ...recipes: Recipe[]
): Grant | undefined {
  for (let link = chain.getStore(); link; link = link.outer) {
    for (const { grant, lease } of link.holdings) {
      const { tenure } = grant;
      if (tenure.client === client && tenure.path === path && recipes.includes(tenure.recipe)) {
        if (!lease.released) return grant;
      }
    }
  }
  return undefined;
}

/** The calls that the caller runs inside of; undefined outside of all leases and terms. */
export function chainNow(): Link | undefined {
  return chain.getStore();
}

/** What a chain holds at this moment. */
export function heldIn(chain: Link): Holding[] {
  const held: Holding[] = [];
  for (let link: Link | undefined = chain; link; link = link.outer) {
    held.push(...link.holdings.filter(({ lease }) => lease.held));
  }
  return held;
}

/**
 * The grant that this chain holds and may enter again. What it lost may be somebody else's by now:
 * going on inside would make two holders (CURATOR-206), so that throws.
 */
export function reentryInChain(client: ZkClient, path: string, recipe: Recipe): Grant | undefined {
  const grant = grantInChain(client, path, recipe);
  // Asked before `lost`: it reads the session's clock, and after a pause no timer may have told of the loss yet.
  if (grant?.held === false && grant.lost) throw grant.lost;
  return grant;
}

/**
 * The innermost lease of this asynchronous call chain, or the innermost of `key`: inside a decorated
 * method, `withLock`'s callback and everything they call. Undefined outside, and after its release. A
 * lost lease is still returned: its `held` and `signal` tell. Of a multi-lock it is the
 * {@link MultiLease} without a `key`, and the one lease with one.
 *
 * @publicApi
 */
export function currentLease(key?: string): Lease | undefined {
  for (let link = chain.getStore(); link; link = link.outer) {
    const present = link.holdings.filter(({ lease }) => !lease.released);
    if (present.length > 0 && key === undefined) return link.lease;
    const holding = present.find(({ lease }) => lease.key === key);
    if (holding) return holding.lease;
  }
  return undefined;
}

/**
 * The innermost term of this asynchronous call chain, or the innermost of `election`: inside a method
 * for leaders alone, a `takeLeadership`, and everything they call. Undefined outside. A term that is
 * over is still returned: its `active` and `signal` tell.
 *
 * @publicApi
 */
export function currentTerm(election?: string): Term | undefined {
  for (let link = chain.getStore(); link; link = link.outer) {
    if (link.term && (election === undefined || link.term.election === election)) return link.term;
  }
  return undefined;
}

/**
 * Runs `fn` outside of every lease and term its caller holds. For what is started inside a locked call and
 * outlives it, such as a pool or a timer: it would otherwise count as the holder.
 *
 * @publicApi
 */
export function runDetached<T>(fn: () => T): T {
  // Not exit(), which turns the hooks of all promises off and on again.
  return chain.run(undefined, fn);
}
