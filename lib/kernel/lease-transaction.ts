import {
  ConnectionError,
  NodeError,
  type TransactionOperation,
  type TransactionResults,
  type ZkClient,
} from '../client/index.js';
import { IllegalStateError, LeaseLostError } from './errors.js';
import type { Lease } from './lease.js';

/*
 * A transaction that succeeds only while a lease is held: it begins with a check that each znode of the lease exists.
 *
 * Existence suffices, because nobody creates a znode of the same path again: its name has a unique id, and the session
 * that created it deletes it once. All other processes are granted the lock after that deletion, so no write that passes
 * the check comes after the grant of another process. Within the process the next caller may be granted the lock behind
 * the same znode. So a release deletes the znode, and hands nothing over, if a transaction of the grant may still be
 * applied: one without a reply, or with a lost one.
 */

/** The part of a GrantSource that transactions use. */
export interface TransactionSource {
  readonly client: ZkClient;
  readonly position: { readonly nodes: readonly string[] };
  /** Disables handover: the znodes are deleted with the last grant. */
  endAfterGrants(): void;
  /** Ends all grants, because a znode is gone. */
  lose(cause: Error): void;
  /**
   * Carries out a transaction if the znodes `guards` exist. The NodeError of one that does not has a negative index.
   *
   * @param assertHeld called before each attempt; the transaction fails with what it throws
   */
  transaction<const T extends readonly TransactionOperation[]>(
    guards: readonly string[],
    operations: T,
    assertHeld: () => void,
  ): Promise<TransactionResults<T>>;
}

interface TransactionGrant {
  readonly ownership: TransactionSource;
  beginTransaction(): void;
  endTransaction(): void;
}

/**
 * @param grants of the lease, of one client
 * @throws LeaseLostError: the lease is not held, and nothing was changed; what {@link ZkClient.transaction} throws
 */
export async function transactionOfLease<const T extends readonly TransactionOperation[]>(
  lease: Lease,
  grants: readonly TransactionGrant[],
  operations: T,
): Promise<TransactionResults<T>> {
  const [{ ownership: source }] = grants as [TransactionGrant];
  if (grants.some(({ ownership: { client } }) => client !== source.client)) {
    const message = `the locks of the lease on ${lease.path} are locks of several clients, and a transaction is sent by one`;
    throw new IllegalStateError(message, { key: lease.key });
  }
  const assertHeld = () => {
    if (!lease.held) throw notHeld(lease);
  };
  assertHeld();
  const nodes = grants.flatMap(({ ownership }) => ownership.position.nodes);
  for (const grant of grants) grant.beginTransaction();
  try {
    return await source.transaction(nodes, operations, assertHeld);
  } catch (error) {
    if (error instanceof NodeError && error.index! < 0) {
      const deleted = grants.find(({ ownership }) => ownership.position.nodes.includes(error.path));
      deleted!.ownership.lose(new Error(`a client deleted its znode ${error.path}`));
      throw notHeld(lease, error);
    }
    if (error instanceof ConnectionError && error.maybeApplied) {
      for (const { ownership } of grants) ownership.endAfterGrants();
    }
    throw error;
  } finally {
    for (const grant of grants) grant.endTransaction();
  }
}

function notHeld(lease: Lease, cause?: Error): LeaseLostError {
  const { key, path, signal } = lease;
  const reason = signal.reason as Error | undefined;
  if (reason instanceof LeaseLostError) return reason;
  return new LeaseLostError(`the lease on ${path} was released`, { key, cause });
}
