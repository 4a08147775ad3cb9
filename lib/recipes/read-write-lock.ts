import { BadOptionError, SessionExpiredError } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { telling } from './diagnostics/publish.js';
import { grantInChain, reentryInChain } from './internals/call-chain.js';
import { enqueue } from './internals/enqueue.js';
import { LeaseLostError } from './errors.js';
import { type Grant, grantOf } from './internals/grant.js';
import { holderData } from './participants.js';
import type { AcquireOptions, Lease } from './lease.js';
import { Lock, type LockOptions } from './lock.js';
import { ownerOf, wantOf } from './internals/owner.js';
import { queueAlone } from './internals/owner.js';
import { readersOf } from './internals/readers.js';
import { childrenOf, type Seat } from './participants.js';
import {
  inOrder,
  lastBefore,
  queueOf,
  type QueueNames,
  type QueueNode,
} from './internals/node-names.js';
import { Tenure } from './internals/tenure.js';
import { readWithin } from './internals/session-retry.js';

/*
 * Read/write lock (Curator's InterProcessReadWriteLock): one queue under the path for both.
 *
 *   Write: create `_c_<uuid>-__WRIT__`; the lock is ours when no node stands before our own; else watch
 *          the node just before it.
 *   Read:  create `_c_<uuid>-__READ__`; the lock is ours when no write node stands before our own; else
 *          watch the last write node before it.
 *
 * A writer that takes the read lock names its read node with the write node's number: it has its turn at
 * once, and keeps it when the write node goes (Curator from 5.5 on; CURATOR-621 sorted it behind a
 * waiting writer).
 */

const READ = '__READ__';
const WRITE = '__WRIT__';
const MARKERS = [READ, WRITE];

export const READER: QueueNames = { marker: READ, markers: MARKERS, nodeAhead: lastWriterBefore };
export const WRITER: QueueNames = { marker: WRITE, markers: MARKERS, nodeAhead: lastBefore };

/**
 * Many readers or one writer, in the order of their arrival, shared with Curator's
 * InterProcessReadWriteLock on the same path. Both locks re-enter along the call chain. A writer may
 * take the read lock too and so downgrade; a reader that asks for the write lock is refused, since it
 * would wait for itself.
 *
 * @publicApi
 */
export class ReadWriteLock {
  readonly read: ReadLock;
  readonly write: WriteLock;

  constructor(client: ZkClient, path: string, options: LockOptions = {}) {
    this.read = new ReadLock(client, path, options);
    this.write = new WriteLock(client, path, options);
  }

  /** Turns a write lease of `write.acquire()` into a read lease, with no writer in between. */
  async downgrade(lease: Lease): Promise<Lease> {
    const reading = await this.read.acquireBeside(lease);
    await lease.release();
    return reading;
  }
}

/**
 * The writer's half of a {@link ReadWriteLock}: excludes everybody else.
 *
 * @publicApi
 */
export class WriteLock extends Lock {
  override readonly recipe = 'write';

  protected override heldByChain(): Grant | undefined {
    const writing = reentryInChain(this.client, this.path, 'write');
    if (!writing && grantInChain(this.client, this.path, 'read')) {
      throw this.selfDeadlock('for writing while it reads, which waits for its own reading to end');
    }
    return writing;
  }

  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    if (options.fairness === 'strict') return queueAlone(this, 'write', options, WRITER);
    return ownerOf(this, 'write', WRITER).acquire(wantOf(this, options));
  }

  protected override seats(): Promise<Seat[]> {
    return seatsOf(this);
  }
}

/**
 * The reader's half of a {@link ReadWriteLock}: excludes writers alone.
 *
 * @publicApi
 */
export class ReadLock extends Lock {
  override readonly recipe = 'read';

  /** The read lock for the holder of a write lease on the same path, without a wait. */
  async acquireBeside(lease: Lease): Promise<Lease> {
    const writing = grantOf(lease);
    if (writing?.tenure.recipe !== 'write' || writing.tenure.path !== this.path) {
      throw new BadOptionError('lease', lease, `a write lease on ${this.path}`);
    }
    return (await telling(this, () => this.besideWriter(writing, {}))).lease(this.key);
  }

  protected override heldByChain(): Grant | undefined {
    return reentryInChain(this.client, this.path, 'read');
  }

  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    const writing = reentryInChain(this.client, this.path, 'write');
    if (writing) return this.besideWriter(writing, options);
    if (options.fairness === 'strict') return queueAlone(this, 'read', options, READER);
    const { client, path: parent } = this;
    return readersOf(client, { parent, ...READER, isWriter }).acquire(wantOf(this, options));
  }

  protected override seats(): Promise<Seat[]> {
    return seatsOf(this);
  }

  private async besideWriter(writing: Grant, options: AcquireOptions): Promise<Grant> {
    try {
      return await this.makeBeside(writing, options);
    } catch (error) {
      // It lives and ends in the writer's session: there is no other to try it in.
      throw error instanceof SessionExpiredError ? goneWithWriter(writing, error) : error;
    }
  }

  private async makeBeside(writing: Grant, { details }: AcquireOptions): Promise<Grant> {
    const { client, path: parent } = this;
    const { session, nodes } = writing.tenure.place;
    const writer = nodes[0]!.slice(parent.length + 1);
    const created = await enqueue(client, session, {
      parent,
      suffix: READ + writer.slice(writer.lastIndexOf(WRITE) + WRITE.length),
      data: holderData(details),
      mode: 'ephemeral',
    });
    const reading = `${parent}/${created.name}`;
    try {
      const { children, stat } =
        created.listing ?? (await readWithin(client, session, () => session.children(parent)));
      // Without the write node before it, our read node stands where others may have gone past it.
      if (!writing.held || !children.includes(writer) || !children.includes(created.name)) {
        throw goneWithWriter(writing);
      }
      // Who has the write lock next must come after this read node.
      writing.tenure.endAfter();
      const place = { session, nodes: [reading], pzxid: stat.pzxid, others: [] };
      return new Tenure(client, 'read', parent, place).grant();
    } catch (error) {
      void session.discard(reading);
      throw error;
    }
  }
}

function goneWithWriter(writing: Grant, cause?: Error): LeaseLostError {
  const message = `the lock on ${writing.tenure.path} was given up meanwhile`;
  return writing.lost ?? new LeaseLostError(message, { cause });
}

function isWriter({ marker }: QueueNode): boolean {
  return marker === WRITE;
}

function lastWriterBefore(queue: readonly QueueNode[], own: QueueNode): QueueNode | undefined {
  return lastBefore(queue.filter(isWriter), own);
}

/** Of both locks: they share one queue. */
async function seatsOf({ client, path: parent }: Lock): Promise<Seat[]> {
  const queue = inOrder(queueOf({ parent, markers: MARKERS }, await childrenOf(client, parent)));
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

/** A writer's own read node. */
function beside(writer: QueueNode, reader: QueueNode): boolean {
  return writer.marker === WRITE && writer.sequence === reader.sequence;
}
