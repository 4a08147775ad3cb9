import { BadOptionError, CoordinationError } from '../client/errors.js';
import { currentLease, currentTerm } from '../kernel/call-chain.js';
import { LeaseLostError } from '../kernel/errors.js';
import { grantOf } from '../kernel/grant.js';
import type { Lease } from '../kernel/lease.js';
import type { Term } from '../kernel/term.js';
import { FENCE_SQL, FENCE_TABLE } from './sql.js';
import { type FencedTransaction, transactionOf } from './transactions.js';

/*
 * The table has a row for each lock, with the highest token of its transactions. A transaction raises the token or inserts the
 * row. That locks the row until the end of the transaction: later holders wait, and then read what it wrote. If the row
 * has a higher token afterwards, a later holder was here, and the transaction must not continue.
 */

/**
 * The database refused a transaction, because a later holder of the lock has written there.
 * Cause: the process was paused for longer than its session lived, and another process was granted the lock. Or the tokens
 * of the ensemble went back, because it was set up anew or restored from a backup.
 * Remedy: let the error roll the transaction back, and acquire the lock again. If all writers get it, the guide on transactions
 * describes how to set the fences back.
 *
 * @publicApi
 */
export class StaleLeaseError extends CoordinationError {
  readonly code = 'STALE_LEASE';
}

/**
 * Takes the fence of a lock in a database, as the first statement of a transaction. From then on the database refuses the
 * transactions of all earlier holders, however long they were paused. Call it before the first read: a value that was read
 * before may be older than the last write. The token of a lease may be used again, so one lease may run several transactions.
 * The fence costs one statement in PostgreSQL and two in MySQL, MariaDB and SQLite. It needs the table that {@link fenceTable}
 * creates, with a row for the path of each lock. Curator has no counterpart.
 *
 * ```ts
 * await dataSource.transaction(async (manager) => {
 *   await fence(manager);
 *   const account = await manager.findOneByOrFail(Account, { id });
 *   …
 * });
 * ```
 *
 * @param tx the transaction: an EntityManager or a QueryRunner of TypeORM, the client of an interactive transaction of
 *   Prisma, a transaction of Drizzle, Knex or libsql, an EntityManager of MikroORM, a connection of pg or mysql2, or a
 *   database of better-sqlite3 or node:sqlite
 * @param lease the lease, or the term of a leader. Of a multi-lock each lease is fenced. Default: the innermost lease of the
 *   call chain; its innermost term if it has no lease
 * @throws StaleLeaseError if a later holder has taken the fence; LeaseLostError or NotLeaderError if the lease or the term is over;
 *   BadOptionError if there is no lease, if others share it, if `tx` is unknown or visibly outside of a transaction, or if the
 *   table cannot store the token; the errors of the database
 * @publicApi
 */
export async function fence(
  tx: object,
  lease: Lease | Term | undefined = currentLease() ?? currentTerm(),
): Promise<void> {
  if (!lease) {
    const message =
      'fence() found no lease: call it inside withLock() or a method with @DistributedLock or @LeaderOnly, or pass the lease or the term';
    throw new BadOptionError('lease', lease, { message });
  }
  const transaction = transactionOf(tx);
  const leases = 'leases' in lease ? [...(lease.leases as readonly Lease[])] : [lease];
  // All processes take the fences of several locks in one order, so that their transactions do not block each other.
  leases.sort((a, b) => (a.path < b.path ? -1 : 1));
  for (const each of leases) await take(transaction, each);
}

async function take(transaction: FencedTransaction, lease: Lease | Term): Promise<void> {
  const { path, fencingToken } = lease;
  const [key, held] =
    'election' in lease ? [lease.election, lease.active] : [lease.key, lease.held];
  checkExclusive(lease);
  // Spares the transaction of a lease that is known to be lost. Only the database decides about the others.
  if (!held) {
    lease.signal.throwIfAborted();
    throw new LeaseLostError(`the lease on ${path} was released`, { key });
  }
  const { raise, read } = FENCE_SQL[transaction.dialect];
  const token = String(fencingToken);
  if (read) await transaction.run(raise, [path, token]);
  const stored = await transaction.token(read ?? raise, read ? [path] : [path, token]);
  // Equal texts: a column or a driver that rounds can only refuse a transaction, never accept one.
  if (stored === token) return;
  if (typeof stored === 'string' && /^\d+$/.test(stored) && BigInt(stored) > fencingToken) {
    const message = `the database refused the transaction of the lease on ${path}: its fencing token is ${token}, and a later holder has stored ${stored} in ${FENCE_TABLE}. Roll back, and acquire the lock again`;
    throw new StaleLeaseError(message, { key });
  }
  const found = stored === undefined ? 'has no row' : `has the token ${JSON.stringify(stored)}`;
  const message = `${FENCE_TABLE} ${found} for ${path} after the token ${token} was written. Create the table with \`npx nestjs-zookeeper fence --sql ${transaction.dialect}\`: its column token must be a 64-bit integer`;
  throw new BadOptionError('tx', stored, { message });
}

/** @throws BadOptionError for a lease that others have at the same time, or whose token is not a bigint */
function checkExclusive(lease: Lease | Term): void {
  const { path, fencingToken } = lease;
  if (!(lease.signal instanceof AbortSignal) || typeof path !== 'string')
    throw new BadOptionError('lease', lease, 'a lease or a term of this library');
  if (typeof fencingToken !== 'bigint')
    throw new BadOptionError('lease.fencingToken', fencingToken, 'a bigint');
  const recipe = 'key' in lease ? grantOf(lease)?.ownership.recipe : undefined;
  if (recipe !== 'read' && recipe !== 'semaphore') return;
  const shared = recipe === 'read' ? 'a read lock' : 'a semaphore';
  const message = `the lease on ${path} is one of ${shared}, which several holders have at a time, so its token fences nothing: write under an exclusive lock`;
  throw new BadOptionError('lease', undefined, { message });
}
