import { AsyncLocalStorage } from 'node:async_hooks';
import type { ZkClient } from '../client/index.js';
import type { Grant } from './grant.js';
import type { Lease } from './lease.js';

/*
 * Who holds what, along the asynchronous call chain: what the thread is to Curator's reentrant
 * locks. A chain sees the leases of the calls it runs inside of, innermost first. A lease that was
 * released is not held by any chain, however long that chain goes on.
 */

interface Link {
  readonly grant: Grant;
  readonly lease: Lease;
  readonly outer: Link | undefined;
}

const chain = new AsyncLocalStorage<Link | undefined>();

/** Runs `fn` as the holder of `lease`. */
export function runHolding<T>(grant: Grant, lease: Lease, fn: () => T): T {
  return chain.run({ grant, lease, outer: chain.getStore() }, fn);
}

/** The grant of `path` that this chain holds or has lost, and has not released. */
export function grantInChain(client: ZkClient, path: string): Grant | undefined {
  for (let link = chain.getStore(); link; link = link.outer) {
    if (link.grant.client === client && link.grant.path === path && !link.grant.released) {
      return link.grant;
    }
  }
  return undefined;
}

/**
 * The innermost lease of this asynchronous call chain, or the innermost of `key`: inside a decorated
 * method, `withLock`'s callback and everything they call. Undefined outside, and after its release. A
 * lost lease is still returned: its `held` and `signal` tell.
 *
 * @publicApi
 */
export function currentLease(key?: string): Lease | undefined {
  for (let link = chain.getStore(); link; link = link.outer) {
    if (!link.grant.released && (key === undefined || link.lease.key === key)) return link.lease;
  }
  return undefined;
}

/**
 * Runs `fn` outside of every lease its caller holds. For what is started inside a locked call and
 * outlives it, such as a pool or a timer: it would otherwise count as the holder.
 *
 * @publicApi
 */
export function runDetached<T>(fn: () => T): T {
  return chain.exit(fn);
}
