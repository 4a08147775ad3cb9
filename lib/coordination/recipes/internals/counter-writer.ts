import { setImmediate } from 'node:timers';
import {
  ConnectionError,
  ifExists,
  isCode,
  type RetryFunction,
  sleep,
  type ZkClient,
} from '../../../client/index.js';
import {
  createPersistent,
  isLostReply,
  LockTimeoutError,
  retryLostReply,
  runDetached,
} from '../../../kernel/index.js';
import type { Mutex } from '../../../recipes/index.js';
import {
  applyChanges,
  type AtomicValue,
  type PendingChange,
  decode,
  encode,
} from './counter-value.js';
import { type CounterSnapshot, UnconfirmedWrite } from './unconfirmed-write.js';

/**
 * The result of an attempt. `stale`: the known value may be out of date, or the counter was missing; the next attempt follows
 * at once. `conflict`: another process wrote in between, or a reply was lost.
 */
type AttemptResult = 'done' | 'stale' | 'conflict';

/** Changes that share one write. */
interface Batch {
  readonly changes: PendingChange[];
  /** Whether changes may join it. Later ones would have fewer attempts. */
  open: boolean;
  unconfirmed: UnconfirmedWrite | undefined;
  /** Whether the value is read after a `sync`. */
  synced: boolean;
}

/** Writes the changes of one counter, those of several callers at once. The algorithm is in distributed-atomic-long.ts. */
export class CounterWriter {
  private waiting: PendingChange[] = [];
  private writing = false;
  /** The value after the last write, while further changes wait. */
  private known: CounterSnapshot | undefined;

  constructor(
    private readonly client: ZkClient,
    private readonly path: string,
    private readonly retry: RetryFunction,
    private readonly lock: Mutex | undefined,
    private readonly lockWait: number,
  ) {}

  change(apply: PendingChange['apply']): Promise<AtomicValue> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ apply, resolve, reject });
      if (this.writing) return;
      this.writing = true;
      // The loop serves other callers, too, and must not count as a holder of the first caller's locks.
      void runDetached(() => this.writeAll());
    });
  }

  private async writeAll(): Promise<void> {
    for (;;) {
      // Waits one turn of the event loop, so that more callers can join.
      await new Promise((resolve) => setImmediate(resolve));
      if (this.waiting.length === 0) break;
      await this.write({ changes: [], open: true, unconfirmed: undefined, synced: false });
    }
    // A counter that is deleted and created again can repeat an old version.
    this.known = undefined;
    this.writing = false;
  }

  private async write(batch: Batch): Promise<void> {
    try {
      if (await this.attempts(batch, this.retry)) return;
      const { lock, lockWait: wait } = this;
      // The holder retries without a delay, because other processes first try without the lock and would win otherwise.
      const asHolder: RetryFunction = (_, elapsed) => (elapsed < wait ? 0 : undefined);
      if (lock && (await lock.withLock(() => this.attempts(batch, asHolder), { wait }))) return;
      throw new LockTimeoutError(
        `counter ${this.path} was not changed: other processes changed it at each attempt; ${lock ? 'raise lockWait' : 'set lockPath, or raise retry'}`,
        { key: this.path },
      );
    } catch (error) {
      this.known = undefined;
      this.join(batch);
      const failure = batch.unconfirmed?.error ?? notApplied(error);
      for (const { reject } of batch.changes) reject(failure);
    }
  }

  /** Resolves to false when the retry policy gives up. */
  private async attempts(batch: Batch, retry: RetryFunction): Promise<boolean> {
    const since = performance.now();
    for (let failed = 0; ;) {
      const attempt = await this.attempt(batch);
      if (attempt === 'done') return true;
      this.known = undefined;
      if (attempt === 'stale') continue;
      batch.open = false;
      const delay = retry(++failed, performance.now() - since);
      if (delay === undefined) return false;
      // A change of the connection, such as its end, also wakes it.
      await sleep(delay, { until: (wake) => this.client.onState(wake) });
    }
  }

  private async attempt(batch: Batch): Promise<AttemptResult> {
    const { client, path } = this;
    const cached = this.known;
    const base = cached ?? (await this.read());
    if (batch.unconfirmed?.resolve(base, client.sessionId) === 'notApplied') {
      batch.unconfirmed = undefined;
    }
    this.join(batch);
    const { value, settle } = applyChanges(batch.changes, base?.value ?? 0n, path);
    if (value === undefined) {
      if (batch.synced) {
        settle();
        return 'done';
      }
      // Without a write, nothing else proves that the value is not out of date.
      await client.sync(path);
      batch.synced = true;
      batch.open = false;
      return 'stale';
    }
    if (!base) {
      // The value 0 changes nothing.
      await retryLostReply(() => createPersistent(client, path, encode(0n)));
      return 'stale';
    }
    const session = client.sessionId;
    try {
      const { version } = await client.set(path, encode(value), base.version);
      this.known = { value, version, czxid: base.czxid };
    } catch (error) {
      if (isCode(error, 'BAD_VERSION')) return cached ? 'stale' : 'conflict';
      if (isCode(error, 'NO_NODE')) return 'conflict';
      if (!isLostReply(error)) throw error;
      batch.unconfirmed ??= new UnconfirmedWrite(path, base, value, session, error);
      // The batch is closed before `sync`, which may throw: changes that wait now were not part of this write.
      batch.open = false;
      await client.sync(path);
      return 'conflict';
    }
    settle();
    return 'done';
  }

  /** Adds the waiting changes to an open batch. */
  private join({ changes, open }: Batch): void {
    if (open) changes.push(...this.waiting.splice(0));
  }

  async read(): Promise<CounterSnapshot | undefined> {
    const node = await ifExists(this.client.get(this.path));
    if (!node) return undefined;
    const { data, stat } = node;
    return { value: decode(data, this.path), version: stat.version, czxid: stat.czxid };
  }
}

/** The error of a batch without an unconfirmed write. A ConnectionError with `maybeApplied: true` is that of a read. */
function notApplied(error: unknown): unknown {
  return isLostReply(error) ? new ConnectionError(error.message, { cause: error }) : error;
}
