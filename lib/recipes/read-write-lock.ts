import { BadOptionError, SessionExpiredError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { publishWait } from '../kernel/diagnostics.js';
import { LeaseLostError } from '../kernel/errors.js';
import { grantInChain, reentrantGrant } from '../kernel/call-chain.js';
import { type Grant, grantOf } from '../kernel/grant.js';
import { holderData } from '../kernel/node-data.js';
import { lastBefore, type QueueNames, type QueueNode, READ, WRITE } from '../kernel/node-names.js';
import { Ownership } from '../kernel/ownership.js';
import { type QueueEntry, readQueue } from '../kernel/participants.js';
import { protectedCreate } from '../kernel/own-node.js';
import { acquireQueued } from '../kernel/local-queue.js';
import { retryRead } from '../kernel/session-retry.js';
import type { AcquireOptions, Lease } from '../kernel/lease.js';
import { cancelled, Waiter, type WaitRequest } from '../kernel/waiter.js';
import { Lock, type LockConstructorOptions } from './lock.js';

/*
 * Read/write lock (Curator's InterProcessReadWriteLock): readers and writers wait in one queue under the path.
 *
 *   Write: create `_c_<uuid>-__WRIT__`. The lock is ours when no znode is ahead. Otherwise watch the znode just ahead.
 *   Read:  create `_c_<uuid>-__READ__`. The lock is ours when no write znode is ahead. Otherwise watch the last write
 *          znode ahead.
 *
 * A writer that acquires the read lock gives its read znode the number of its write znode. So it holds the read lock at
 * once, and keeps it when the write znode is deleted (Curator since 5.5; before, CURATOR-621 put it behind a waiting
 * writer).
 */

const MARKERS = [READ, WRITE];

const READER: QueueNames = { marker: READ, markers: MARKERS, nodeAhead: lastWriterBefore };
const WRITER: QueueNames = { marker: WRITE, markers: MARKERS, nodeAhead: lastBefore };

/**
 * A lock for many readers or one writer, in the order of their arrival. It shares the path with Curator's
 * `InterProcessReadWriteLock`. Both locks re-enter along the call chain. A writer may acquire the read lock as well and
 * downgrade to it. A reader that asks for the write lock is refused, because it would wait for itself.
 *
 * @publicApi
 */
export class ReadWriteLock {
  readonly read: ReadLock;
  readonly write: WriteLock;

  constructor(client: ZkClient, path: string, options?: LockConstructorOptions) {
    this.read = new ReadLock(client, path, options);
    this.write = new WriteLock(client, path, options);
  }

  /** Turns a write lease into a read lease, with no other writer in between. Rejects as {@link ReadLock.acquireBeside}. */
  async downgrade(lease: Lease): Promise<Lease> {
    const reading = await this.read.acquireBeside(lease);
    await lease.release();
    return reading;
  }
}

/**
 * The write lock of a {@link ReadWriteLock}. It excludes readers and writers.
 *
 * @publicApi
 */
export class WriteLock extends Lock {
  constructor(client: ZkClient, path: string, options?: LockConstructorOptions) {
    super(client, path, 'write', options);
  }

  protected override heldByChain(): Grant | undefined {
    const writing = reentrantGrant(this.client, this.path, 'write');
    if (!writing && grantInChain(this.client, this.path, 'read')) {
      const why = 'for reading, and the write lock would wait for that';
      throw this.selfDeadlock(why, 'release the read lock first');
    }
    return writing;
  }

  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    return acquireQueued(this, WRITER, options);
  }

  protected override entries(): Promise<QueueEntry[]> {
    return entriesOf(this);
  }
}

/**
 * The read lock of a {@link ReadWriteLock}. It excludes writers only.
 *
 * @publicApi
 */
export class ReadLock extends Lock {
  constructor(client: ZkClient, path: string, options?: LockConstructorOptions) {
    super(client, path, 'read', options);
  }

  /**
   * Acquires the read lock for the holder of a write lease on the same path, without a wait for other holders.
   *
   * @throws BadOptionError for any other lease; LeaseLostError if the write lease was lost or released; ConnectionError,
   *   NotAuthorizedError
   */
  async acquireBeside(lease: Lease): Promise<Lease> {
    const writing = grantOf(lease);
    if (writing?.ownership.recipe !== 'write' || writing.ownership.path !== this.path) {
      throw new BadOptionError('lease', lease, `a write lease on ${this.path}`);
    }
    return (await publishWait(this, () => this.besideWriter(writing, {}))).lease(this.key);
  }

  protected override heldByChain(): Grant | undefined {
    return reentrantGrant(this.client, this.path, 'read');
  }

  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    const writing = reentrantGrant(this.client, this.path, 'write');
    if (writing) return this.besideWriter(writing, options);
    return acquireQueued(this, READER, options, isWriter);
  }

  protected override entries(): Promise<QueueEntry[]> {
    return entriesOf(this);
  }

  private besideWriter(
    writing: Grant,
    { wait = Infinity, signal, details }: AcquireOptions,
  ): Promise<Grant> {
    if (signal?.aborted) return Promise.reject(cancelled(this, signal));
    const ended = new AbortController();
    const request = { subject: this, wait, signal };
    const waiter = new Waiter<Grant, WaitRequest>(request, { remove: () => ended.abort() });
    this.createBeside(writing, details, ended.signal).then(
      (grant) => waiter.resolve(grant) || grant.release(),
      (error) => {
        // The read znode must be in the session of the write znode, so there is no session to try again in.
        const isOver = error instanceof SessionExpiredError;
        waiter.reject(isOver ? lostWriteLock(writing, error) : error);
      },
    );
    return waiter.promise;
  }

  private async createBeside(
    writing: Grant,
    details: AcquireOptions['details'],
    signal: AbortSignal,
  ): Promise<Grant> {
    const { client, path: parent } = this;
    const { session, nodes } = writing.ownership.position;
    const writer = nodes[0]!.slice(parent.length + 1);
    const created = await protectedCreate(client, session, {
      parent,
      suffix: READ + writer.slice(writer.lastIndexOf(WRITE) + WRITE.length),
      data: holderData(details),
      mode: 'ephemeral',
      signal,
    });
    const reading = `${parent}/${created.name}`;
    try {
      const { children, stat } =
        created.listing ??
        (await retryRead(client, session, () => session.children(parent), signal));
      // Without the write znode ahead of it, other znodes may have passed our read znode.
      if (!writing.held || !children.includes(writer) || !children.includes(created.name)) {
        throw lostWriteLock(writing);
      }
      // The next writer must be behind this read znode, so the write znode is not handed over.
      writing.ownership.endAfterGrants();
      const position = { session, nodes: [reading], zxid: stat.pzxid, children: [] };
      return new Ownership(client, 'read', parent, position).grant();
    } catch (error) {
      void session.guaranteedDelete(reading);
      throw error;
    }
  }
}

function lostWriteLock(writing: Grant, cause?: Error): LeaseLostError {
  const message = `the write lock on ${writing.ownership.path} was lost or released meanwhile`;
  return writing.lost ?? new LeaseLostError(message, { cause });
}

function isWriter({ marker }: QueueNode): boolean {
  return marker === WRITE;
}

function lastWriterBefore(queue: readonly QueueNode[], own: QueueNode): QueueNode | undefined {
  return lastBefore(queue.filter(isWriter), own);
}

/** Reads the queue that both locks share. */
async function entriesOf({ client, path: parent }: Lock): Promise<QueueEntry[]> {
  const queue = await readQueue(client, parent, MARKERS);
  const firstWriter = queue.findIndex(({ marker }) => marker === WRITE);
  return queue.map((node, index) => {
    const writes = node.marker === WRITE;
    const holds =
      index === 0 ||
      (!writes && (firstWriter < 0 || index < firstWriter || beside(queue[0]!, node)));
    return {
      node,
      parent,
      state: holds ? 'holding' : 'waiting',
      mode: writes ? 'write' : 'read',
    };
  });
}

/** Whether a read znode belongs to the writer at the head. */
function beside(writer: QueueNode, reader: QueueNode): boolean {
  return writer.marker === WRITE && writer.sequence === reader.sequence;
}
