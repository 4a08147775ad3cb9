import { AsyncLocalStorage } from 'node:async_hooks';
import type { ZkClient } from '../client/index.js';
import type { Lease } from './lease.js';
import type { Term } from './term.js';
import type { LockKind } from './types.js';
import type { Grant, GrantLease } from './grant.js';

/*
 * The leases and terms of an asynchronous call chain. The call chain is what the thread is to Curator's reentrant locks:
 * a call inherits the leases of its enclosing calls, innermost first. A released lease is no longer held by its chain,
 * although the chain continues, and another chain may hold the same grant by another lease.
 */

/** A call that runs as the holder of a lease or as a leader, and the calls around it. */
export interface CallChain {
  readonly lease?: Lease;
  /** One lease, or those of a multi-lock. */
  readonly held: readonly GrantLease[];
  readonly term?: Term;
  /** The request whose handler runs in it. */
  readonly request?: object;
  readonly outer: CallChain | undefined;
}

const chains = new AsyncLocalStorage<CallChain | undefined>();

/** Runs `fn` as the holder of `lease`. */
export function runHolding<T>(lease: Lease, held: readonly GrantLease[], fn: () => T): T {
  return chains.run({ lease, held, outer: current() }, fn);
}

/** Runs `fn` as the leader of `term`. */
export function runLeading<T>(term: Term, fn: () => T): T {
  const outer = current();
  return chains.run(outer?.term === term ? outer : { term, held: [], outer }, fn);
}

/**
 * Runs `fn` for a request, in the call chain of the caller, but outside of the chain of another request: the callback of a
 * socket or a pool that a holder has opened may call the handler of a later request.
 */
export function runForRequest<T>(request: object, fn: () => T): T {
  const outer = current();
  let chain = outer;
  while (chain && !chain.request) chain = chain.outer;
  const isForeign = chain && chain.request !== request;
  return chains.run({ request, held: [], outer: isForeign ? undefined : outer }, fn);
}

/**
 * Returns the call chain of the caller without the innermost leases that are released: work that starts its next run before
 * its own lease is released would make the chain longer with each run.
 */
function current(): CallChain | undefined {
  let chain = chains.getStore();
  while (chain?.lease && chain.held.every(({ released }) => released)) chain = chain.outer;
  return chain;
}

/** Returns the grant on `path` of which the calling chain has an unreleased lease. The grant may be lost. */
export function grantInChain(
  client: ZkClient,
  path: string,
  ...recipes: LockKind[]
): Grant | undefined {
  for (let chain = chains.getStore(); chain; chain = chain.outer) {
    for (const { grant, released } of chain.held) {
      const { ownership } = grant;
      const matches =
        ownership.client === client &&
        ownership.path === path &&
        recipes.includes(ownership.recipe);
      if (matches && !released) return grant;
    }
  }
  return undefined;
}

/** Returns the call chain of the caller; undefined outside of all leases, terms and requests. */
export function currentChain(): CallChain | undefined {
  return chains.getStore();
}

/** Returns the leases that a chain holds at this moment. */
export function heldLeases(chain: CallChain): GrantLease[] {
  const held: GrantLease[] = [];
  for (let call: CallChain | undefined = chain; call; call = call.outer) {
    held.push(...call.held.filter((lease) => lease.held));
  }
  return held;
}

/**
 * Returns the grant that the calling chain holds and may enter again.
 *
 * @throws LeaseLostError if the grant was lost: another process may hold the lock by now (CURATOR-206)
 */
export function reentrantGrant(
  client: ZkClient,
  path: string,
  recipe: LockKind,
): Grant | undefined {
  const grant = grantInChain(client, path, recipe);
  // `held` reads the clock of the session. After a pause, or in a listener of the session, nothing may have set `lost` yet.
  if (grant?.held === false) grant.ownership.noticeLoss();
  if (grant?.held === false && grant.lost) throw grant.lost;
  return grant;
}

/**
 * Returns the innermost lease of the asynchronous call chain, or the innermost one of `key`: inside a decorated method,
 * the callback of `withLock`, and everything that they call. Undefined outside of these, and after the release. A lost
 * lease is still returned; its `held` and `signal` show the loss. For a multi-lock it is the {@link MultiLease} without
 * a `key`, and the single lease with one. If the chain holds a lock and a permit of a semaphore with the same `key`, it is the
 * lock. A lock of another connection may have the same `key`, and has another `path`.
 *
 * @publicApi
 */
export function currentLease(key?: string): Lease | undefined {
  let permit: Lease | undefined;
  for (let chain = chains.getStore(); chain; chain = chain.outer) {
    const unreleased = chain.held.filter((lease) => !lease.released);
    if (unreleased.length > 0 && key === undefined) return chain.lease;
    for (const lease of unreleased.filter((each) => each.key === key)) {
      if (lease.grant.ownership.recipe !== 'semaphore') return lease;
      permit ??= lease;
    }
  }
  return permit;
}

/**
 * Returns the innermost term of the asynchronous call chain, or the innermost one of `election`: inside a method of a
 * leader, the callback `takeLeadership`, and everything that they call. Undefined outside of these. A term that is over
 * is still returned; its `active` and `signal` show that.
 *
 * @publicApi
 */
export function currentTerm(election?: string): Term | undefined {
  for (let chain = chains.getStore(); chain; chain = chain.outer) {
    if (chain.term && (election === undefined || chain.term.election === election)) {
      return chain.term;
    }
  }
  return undefined;
}

/**
 * Runs `fn` outside of every lease and term of the caller. Use it to start something that outlives the locked call, such
 * as a pool or a timer, which would otherwise count as the holder. If nobody awaits what it starts, it must handle its errors:
 * an unhandled rejection ends the process.
 *
 * @publicApi
 */
export function runDetached<T>(fn: () => T): T {
  // Not exit(), which turns the hooks of all promises off and on again.
  return chains.run(undefined, fn);
}
