import { getEventListeners } from 'node:events';
import type { History, LeaseLike, LeaseRecord, Request, RequestedLock } from './history.js';
import type { JobContext } from './workload.js';

type AcquireOptions = import('nestjs-zookeeper/recipes').AcquireOptions;
type Lease = import('nestjs-zookeeper/recipes').Lease;
type MultiLock = import('nestjs-zookeeper/recipes').MultiLock;
type ReadWriteLock = import('nestjs-zookeeper/recipes').ReadWriteLock;
type Lock = import('nestjs-zookeeper/recipes').Lock;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;
type Term = import('nestjs-zookeeper/recipes').Term;

/** Acquires locks and records the requests, the grants and the releases in the history. */
export class Recorder {
  constructor(private readonly context: Pick<JobContext, 'history' | 'incarnation'>) {}

  async withLock(
    lock: Lock,
    requested: RequestedLock,
    options: AcquireOptions,
    act: (record: LeaseRecord) => Promise<void>,
  ): Promise<void> {
    const { history, incarnation } = this.context;
    const request = history.recordRequest(incarnation, requested, options);
    let record: LeaseRecord | undefined;
    try {
      await lock.withLock(async (lease) => {
        record = history.recordGrant(request, lease);
        try {
          await act(record);
        } finally {
          history.recordReleaseStart(record);
        }
      }, options);
    } catch (error) {
      if (!record) history.recordRefusal(request, error);
      throw error;
    } finally {
      if (record) history.recordReleaseEnd(record);
    }
  }

  async enter(lock: Lock, requested: RequestedLock, options: AcquireOptions) {
    const { history, incarnation } = this.context;
    const request = history.recordRequest(incarnation, requested, options);
    const entry = await settle(lock.enter(options), (error) =>
      history.recordRefusal(request, error),
    );
    return { entry, record: history.recordGrant(request, entry.lease) };
  }

  async acquire(
    requested: RequestedLock,
    options: AcquireOptions,
    acquire: () => Promise<Lease>,
  ): Promise<LeaseRecord<Lease>> {
    const { history, incarnation } = this.context;
    return recordAcquire(history.recordRequest(incarnation, requested, options), history, acquire);
  }

  async release(record: LeaseRecord<Lease>): Promise<void> {
    const { history } = this.context;
    history.recordReleaseStart(record);
    await record.lease.release();
    history.recordReleaseEnd(record);
  }

  /** Resolves when the holder is notified of a request for revocation. */
  followRevocation(record: LeaseRecord<Lease>): Promise<void> {
    record.revoked = Infinity;
    const { revocation } = record.lease;
    return new Promise((resolve) => {
      const onAbort = () => {
        record.revoked = this.context.history.world.now;
        resolve();
      };
      revocation.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Downgrades a write lease. Returns undefined if the read lease was lost before the call returned. */
  async downgrade(
    lock: ReadWriteLock,
    write: LeaseRecord<Lease>,
    requested: RequestedLock,
  ): Promise<LeaseRecord<Lease> | undefined> {
    const { history, incarnation } = this.context;
    const request = history.recordRequest(incarnation, requested, { wait: 0 });
    // A downgrade releases the write lease some time before it resolves.
    history.recordReleaseStart(write);
    const read = settle(lock.downgrade(write.lease), (error) =>
      history.recordRefusal(request, error),
    );
    const downgraded = await read.catch(async (error: unknown) => {
      await write.lease.release();
      history.recordReleaseEnd(write);
      throw error;
    });
    // The read lease was granted before the write lease was released, and it may be lost already.
    if (!downgraded.held) {
      history.recordRefusal(request, downgraded.signal.reason);
      await downgraded.release();
      return undefined;
    }
    const record = history.recordGrant(request, downgraded);
    history.recordReleaseEnd(write);
    return record;
  }

  /** @param requested the locks of the multi-lock, in its order */
  async withMultiLock(
    multiLock: MultiLock,
    requested: readonly RequestedLock[],
    options: AcquireOptions,
    act: (records: LeaseRecord<Lease>[]) => Promise<void>,
  ): Promise<void> {
    const { history, incarnation } = this.context;
    const requests = requested.map((lock) =>
      history.recordRequest(incarnation, { ...lock, partOfMultiLock: true }, options),
    );
    const refuse = (error: unknown) => {
      for (const request of requests) history.recordRefusal(request, error);
    };
    const entry = await settle(multiLock.enter(options), refuse);
    const { lease } = entry;
    if (lease.leases.some(({ held }) => !held)) {
      const why = `${incarnation.name} was granted a multi-lock, one lock of which was lost`;
      history.recordViolation('a multi-lock is granted with all its locks', why);
    }
    // Each lock is held under the lease of all.
    const records = requests.map((request) => history.recordGrant<Lease>(request, lease));
    await entry.run(() => act(records));
    for (const record of records) history.recordReleaseStart(record);
    await entry.release();
    for (const record of records) history.recordReleaseEnd(record);
  }

  /** Checks that a lost connection ends every lease, as it does under the policy `standard`. */
  watchSuspension(client: ZkClient): void {
    const { history, incarnation } = this.context;
    client.onState(({ state }) => {
      if (state !== 'SUSPENDED') return;
      const held = history.heldBy(incarnation);
      setImmediate(() => {
        for (const { lease, key } of held) {
          if (lease.signal.aborted || client.connected) continue;
          const why = `${incarnation.name} kept ${key} although its connection was lost`;
          history.recordViolation('a lost connection ends leases under the policy standard', why);
        }
      });
    });
  }

  /** Checks that nothing listens to a signal any more. To be called when all requests with the signal have settled. */
  checkListeners(signal: AbortSignal): void {
    const { history, incarnation } = this.context;
    const count = getEventListeners(signal, 'abort').length;
    if (count === 0) return;
    const why = `${count} listeners are left on a signal of ${incarnation.name}`;
    history.recordViolation('no listener is left', why);
  }

  term(key: string, term: Term): LeaseRecord {
    const { history, incarnation } = this.context;
    const requested = { key, path: undefined, mode: 'lead', count: 1 } as const;
    return history.recordGrant(history.recordRequest(incarnation, requested), termAsLease(term));
  }
}

/** Acquires a lease and records the grant or the error. */
export async function recordAcquire(
  request: Request,
  history: History,
  acquire: () => Promise<Lease>,
): Promise<LeaseRecord<Lease>> {
  const lease = await settle(acquire(), (error) => history.recordRefusal(request, error));
  return history.recordGrant(request, lease);
}

/** Returns the view of a term that the history records like a lease. */
export function termAsLease(term: Term): LeaseLike {
  return {
    get held() {
      return term.active;
    },
    get signal() {
      return term.signal;
    },
    fencingToken: term.fencingToken,
  };
}

/** Settles as `promise` does. Calls `onError` before a rejection. */
export async function settle<T>(
  promise: Promise<T>,
  onError: (error: unknown) => void,
): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    onError(error);
    throw error;
  }
}
