import { isAbortBy, ShuttingDownError, sleep, untilAborted } from '../../client/index.js';
import { type Lease, retryPause, runDetached } from '../../kernel/index.js';
import type { Mutex } from '../../recipes/index.js';
import { PartitionReleasedError } from './errors.js';
import { OwnedPartition, type Partition } from './partition.js';

/** Milliseconds before a handler that has failed is called again, at first and at most. */
const [FIRST_BACKOFF, LONGEST_BACKOFF] = [1000, 30_000];

interface RunnerOptions {
  readonly index: number;
  /** The lock of the partition. */
  readonly mutex: Mutex;
  /** The id of the member, which the znode of the lock shows. */
  readonly name: string;
  /** Milliseconds. */
  readonly stopTimeout: number;
  handler(partition: Partition): unknown;
  /** Called when the partition becomes owned, and when it is not any more. */
  onChange(): void;
  /** Called with an error of the handler. */
  onError(error: unknown): void;
  /** Called with an error that keeps this process from the lock. */
  onLockError(error: unknown): void;
}

/**
 * Acquires the lock of a partition that is assigned to this member, and calls the handler while it holds the lock.
 * Acquires it again after a loss. Releases it when it was stopped and the handler has settled.
 */
export class PartitionRunner {
  /** The partition while this process holds its lock. */
  partition: OwnedPartition | undefined;
  /** Resolves when it was stopped and the lock is released. */
  readonly done: Promise<void>;
  private readonly stopping = new AbortController();

  constructor(private readonly options: RunnerOptions) {
    this.done = runDetached(() => this.run());
  }

  stop(why: string): void {
    const { mutex } = this.options;
    const reason = new PartitionReleasedError(`${mutex.key} ${why}`, { key: mutex.key });
    this.stopping.abort(reason);
    this.partition?.abort(reason);
  }

  private async run(): Promise<void> {
    const { mutex, name, onLockError } = this.options;
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        await mutex.withLock((lease) => this.own(lease), { signal, details: { name } });
      } catch (error) {
        // After the client was closed, the partitioner stops this runner.
        if (!signal.aborted && !(error instanceof ShuttingDownError)) onLockError(error);
        await retryPause(mutex.client, signal);
      }
    }
  }

  /** Calls the handler. Resolves when the partition has ended and the handler has settled. */
  private async own(lease: Lease): Promise<void> {
    const { index, onChange } = this.options;
    const { signal: stopped } = this.stopping;
    if (stopped.aborted) return;
    const partition = (this.partition = new OwnedPartition(index, lease));
    const { signal } = partition;
    const ended = untilAborted(signal);
    signal.addEventListener('abort', onChange, { once: true });
    onChange();
    try {
      await this.handle(partition, ended);
      await ended;
    } finally {
      this.partition = undefined;
    }
  }

  private async handle(partition: OwnedPartition, ended: Promise<void>): Promise<void> {
    const { handler, onError, stopTimeout, mutex } = this.options;
    const { signal } = partition;
    for (let pause = FIRST_BACKOFF; partition.owned; pause = Math.min(2 * pause, LONGEST_BACKOFF)) {
      let overdue: NodeJS.Timeout | undefined;
      let settled = false;
      void ended.then(() => {
        if (settled) return;
        const message = `the handler of ${mutex.key} is still running ${stopTimeout} ms after its signal aborted; no other process can own the partition until the handler settles or the session ends: stop the work when the signal aborts`;
        overdue = setTimeout(() => onError(new Error(message)), stopTimeout).unref();
      });
      try {
        await handler(partition);
        return;
      } catch (error) {
        // An error by the signal of the partition is the expected end.
        if (isAbortBy(signal, error)) return;
        onError(error);
      } finally {
        settled = true;
        clearTimeout(overdue);
      }
      await sleep(pause, { signals: [signal] }).catch(() => {});
    }
  }
}
