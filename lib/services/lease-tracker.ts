import { quotedKey, ShuttingDownError } from '../client/errors.js';
import { ABORT_SIGNAL, checkValue } from '../client/validation.js';
import type { Entry, Lease, Lock, MultiLease } from '../recipes/index.js';
import { FifoSet } from '../client/fifo-set.js';
import { grantOf } from '../kernel/grant.js';
import { returnController, takeController } from '../kernel/waiter.js';

/** What the tracker must know about an acquire. */
export interface Admission {
  readonly key: string;
  readonly noun: Lock['noun'];
  /**
   * True if the call chain holds the lock already. A shutdown waits for the outer lease and therefore
   * must not refuse the inner one.
   */
  readonly isReentry: boolean;
  /** The locks to acquire. A warning about a long wait reads their holders. */
  readonly locks: readonly Pick<Lock, 'participants'>[];
}

/** An acquire that was neither granted nor rejected yet. */
export interface PendingAcquire {
  readonly admission: Admission;
  readonly cancel: AbortController;
}

/**
 * Knows all pending acquires and all held leases of one connection. A shutdown refuses new acquires,
 * cancels the pending ones and waits until the held leases are released.
 */
export class LeaseTracker {
  readonly pending = new FifoSet<PendingAcquire>();
  readonly leases = new FifoSet<Lease>();
  /** Called with the keys of leases that were found lost, and the reason of the first. */
  onLost: ((keys: readonly string[], reason: Error) => void) | undefined;
  private refusal: ShuttingDownError | undefined;
  private onEmpty: (() => void) | undefined;

  /**
   * Runs `acquire`, which counts as pending until it settles or calls `onGranted`. The signal that it
   * receives aborts with the caller's `signal` and with a shutdown.
   */
  async admit<T>(
    admission: Admission,
    signal: AbortSignal | undefined,
    acquire: (signal: AbortSignal, onGranted: () => void) => Promise<T>,
  ): Promise<T> {
    if (signal !== undefined) checkValue('signal', signal, ABORT_SIGNAL);
    if (this.refusal && !admission.isReentry) throw refused(admission, this.refusal);
    // Not AbortSignal.any(): a signal that lives as long as the application would collect a dependent
    // signal of every call.
    const cancel = takeController();
    const onAbort = () => cancel.abort(signal?.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort);
    const pending = { admission, cancel };
    this.pending.add(pending);
    let settled = false;
    const settle = () => {
      if (settled) return;
      settled = true;
      signal?.removeEventListener('abort', onAbort);
      this.pending.delete(pending);
    };
    try {
      return await acquire(cancel.signal, settle);
    } catch (error) {
      // Granted before: the error comes from the callback that held the lock.
      if (settled) throw error;
      if (this.refusal && cancel.signal.reason === this.refusal) {
        throw refused(admission, this.refusal);
      }
      throw error;
    } finally {
      settle();
      returnController(cancel);
    }
  }

  /** Ends the tracking of a lease that was released or lost. */
  remove(lease: Lease): void {
    if (lossOf(lease)) this.removeLost();
    this.leases.delete(lease);
    if (this.leases.size === 0) this.onEmpty?.();
  }

  /** Ends the tracking of lost leases. Their holders may never release them. */
  removeLost(): void {
    const ended = [...this.leases].filter((lease) => !isHeld(lease));
    for (const lease of ended) this.leases.delete(lease);
    const lost = ended.filter(lossOf);
    if (lost.length > 0) {
      this.onLost?.([...new Set(lost.map(({ key }) => key))], lossOf(lost[0]!)!);
    }
    if (this.leases.size === 0) this.onEmpty?.();
  }

  holds(path: string): boolean {
    return [...this.leases].flatMap(partsOf).some((part) => part.path === path && part.held);
  }

  /** Rejects pending and later acquires with a ShuttingDownError. Idempotent. */
  refuse(): void {
    this.refusal ??= new ShuttingDownError('the application is shutting down');
    for (const { cancel } of this.pending) cancel.abort(this.refusal);
  }

  /**
   * Refuses acquires, then waits at most `limit` milliseconds until all leases are released or lost. Those that are
   * still held end with the session.
   */
  async drain(limit: number): Promise<void> {
    this.refuse();
    for (const { signal } of [...this.leases].flatMap(partsOf)) {
      signal.addEventListener('abort', () => this.removeLost(), { once: true });
    }
    this.removeLost();
    if (this.leases.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limit);
        this.onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.onEmpty = undefined;
    }
  }

  heldKeys(): string[] {
    return [...this.leases].filter(isHeld).map(({ key }) => key);
  }
}

/** Returns the leases that the lease of a multi-lock consists of; of any other lease the lease itself. */
function partsOf(lease: Lease): readonly Lease[] {
  return (lease as Partial<MultiLease>).leases ?? [lease];
}

/**
 * Releases an entry whose work may continue, such as the promise inside an Observable that was unsubscribed, and aborts
 * the signal of its lease, so that the work can stop. The signal does not abort if an outer holder has the lock too.
 */
export function abandon({ lease, release }: Entry): Promise<void> {
  const grants = partsOf(lease).flatMap((part) => grantOf(part) ?? []);
  const unreleased = grants.filter((grant) => !grant.released);
  const released = release();
  for (const grant of unreleased) grant.notifyAbandoned();
  return released;
}

function lossOf(lease: Lease): Error | undefined {
  for (const part of partsOf(lease)) {
    const lost = grantOf(part)?.lost;
    if (lost) return lost;
  }
  return undefined;
}

/** A multi-lock that lost one of its locks still holds the others. */
function isHeld(lease: Lease): boolean {
  return partsOf(lease).some((part) => part.held);
}

function refused({ key, noun }: Admission, cause: ShuttingDownError): ShuttingDownError {
  const message = `${noun} ${quotedKey(key)} is refused: ${cause.message}`;
  const error = new ShuttingDownError(message, { key });
  // Part of each orderly shutdown: loggers would print the library's stack for each job that waits.
  error.stack = String(error);
  return error;
}
