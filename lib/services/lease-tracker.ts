import { quotedKey, ShuttingDownError } from '../client/errors.js';
import type { Entry, Lease, Lock, MultiLease } from '../recipes/index.js';
import { FifoSet } from '../client/fifo-set.js';
import { onAbort } from '../client/sleep.js';
import { grantOf } from '../kernel/grant.js';
import type { LeaseBase } from '../kernel/lease.js';
import type { Subject } from '../kernel/types.js';
import { returnController, takeController } from '../kernel/waiter.js';

/** A call that acquires. */
export interface TrackedRequest {
  readonly key: string;
  readonly noun: Subject['noun'];
  /** The locks to acquire. A warning about a long wait reads their holders. */
  readonly locks: readonly Pick<Lock, 'participants'>[];
  /**
   * Whether the call chain holds the lock already. A shutdown waits for the outer lease and therefore must not refuse the
   * inner one.
   */
  isReentry?(): boolean;
}

/** A request that was neither granted nor rejected yet. */
interface PendingRequest {
  readonly request: TrackedRequest;
  /** Aborts with the caller's signal and with a shutdown. */
  readonly cancel: AbortController;
}

/**
 * Knows all pending requests and all held leases of one connection. A shutdown refuses new requests, cancels the pending
 * ones and waits until the held leases are released.
 */
export class LeaseTracker {
  readonly pending = new FifoSet<PendingRequest>();
  readonly leases = new FifoSet<LeaseBase>();
  /** Called with the keys of leases that were found lost, and the reason of the first. */
  onLost: ((keys: readonly string[], reason: Error) => void) | undefined;
  private refusal: ShuttingDownError | undefined;
  private onEmpty: (() => void) | undefined;

  /**
   * Runs `acquire`. Its request counts as pending until `acquire` settles.
   *
   * @param signal of the caller
   * @param onGranted is called with the result before the request ceases to be pending
   */
  async admit<T>(
    request: TrackedRequest,
    signal: AbortSignal | undefined,
    acquire: (signal: AbortSignal) => Promise<T> | T,
    onGranted: (granted: T) => void,
  ): Promise<T> {
    if (this.refusal && !request.isReentry?.()) throw refused(request, this.refusal);
    // Not AbortSignal.any(): a signal that lives as long as the application would collect a dependent
    // signal of every call.
    const cancel = takeController();
    const removeListener = onAbort(signal, () => cancel.abort(signal?.reason));
    const pending = { request, cancel };
    // A re-entry during the shutdown is not cancelled by its next step.
    if (!this.refusal) this.pending.add(pending);
    try {
      const acquiring = acquire(cancel.signal);
      const granted = acquiring instanceof Promise ? await acquiring : acquiring;
      onGranted(granted);
      return granted;
    } catch (error) {
      const { reason } = cancel.signal;
      throw this.refusal && reason === this.refusal ? refused(request, this.refusal) : error;
    } finally {
      removeListener();
      this.pending.delete(pending);
      returnController(cancel);
    }
  }

  /** Ends the tracking of a lease that was released or lost. */
  remove(lease: LeaseBase): void {
    if (lease.lost) this.removeLost();
    this.leases.delete(lease);
    if (this.leases.size === 0) this.onEmpty?.();
  }

  /** Ends the tracking of lost leases. Their holders may never release them. */
  removeLost(): void {
    const ended = [...this.leases].filter((lease) => !isHeld(lease));
    for (const lease of ended) this.leases.delete(lease);
    const lost = ended.filter((lease) => lease.lost);
    if (lost.length > 0) {
      this.onLost?.([...new Set(lost.map(({ key }) => key))], lost[0]!.lost!);
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

/** A multi-lock that lost one of its locks still holds the others. */
function isHeld(lease: Lease): boolean {
  return partsOf(lease).some((part) => part.held);
}

function refused({ key, noun }: TrackedRequest, cause: ShuttingDownError): ShuttingDownError {
  const message = `${noun} ${quotedKey(key)} is refused: ${cause.message}`;
  const error = new ShuttingDownError(message, { key });
  // Part of each orderly shutdown: loggers would print the library's stack for each job that waits.
  error.stack = String(error);
  return error;
}
