import { abortable } from '../client/sleep.js';
import { NodeError, type Session, type Watch, type ZkClient } from '../client/index.js';
import { reentrantGrant } from '../recipes/internals/call-chain.js';
import { protectedCreate, type Listing } from '../recipes/internals/protected-create.js';
import type { Grant } from '../recipes/internals/grant.js';
import { holderData, NodeData } from '../recipes/internals/node-data.js';
import type { AcquireOptions } from '../recipes/lease.js';
import type { Lock, LockConstructorOptions } from '../recipes/lock.js';
import { type QueuePosition, retryAcrossSessions } from '../recipes/internals/queue.js';
import { freshNode, queueOf, type QueueSpec } from '../recipes/internals/node-names.js';
import { READER, ReadLock, WriteLock, WRITER } from '../recipes/read-write-lock.js';
import { Ownership } from '../recipes/internals/ownership.js';
import { assertSameSession, retryRead } from '../recipes/internals/session-retry.js';
import { type WaitContext, waitFor } from './single-node-lock.js';

/*
 * FOR TEACHING. The shared (read/write) lock with a child watch on the parent:
 *
 *   1. Create an ephemeral sequential znode for reading or for writing under the path.
 *   2. List the children of the path. A reader holds the lock if no write znode is ahead of its own, a writer if no
 *      znode at all is ahead.
 *   3. Otherwise watch the children of the path until one is created or deleted, and list them again.
 *   4. The release deletes the znode.
 *
 * The herd effect: every arrival and every release wakes all n waiters, and each of them reads the whole list again.
 * After the release of a writer, one of n waiting writers holds the lock and n - 1 woke in vain. After an arrival all
 * of them did.
 *
 * Use `ReadWriteLock` instead. It has the same znodes in the same order, so both exclude each other on one path, but
 * each waiter watches only the znode that must be deleted before its turn. `npm run bench:herd` measures both.
 */

/**
 * A lock for many readers or one writer, **for teaching**: every arrival and every release wakes every waiter. Use
 * `ReadWriteLock`.
 *
 * @publicApi
 */
export class SharedLock {
  readonly read: ReadLock;
  readonly write: WriteLock;

  constructor(client: ZkClient, path: string, options: LockConstructorOptions = {}) {
    this.read = new ChildWatchReadLock(client, path, options);
    this.write = new ChildWatchWriteLock(client, path, options);
  }
}

class ChildWatchReadLock extends ReadLock {
  protected override take(options: AcquireOptions): Promise<Grant> | Grant {
    // The holder of the write lock may read at once: nothing to wait for.
    if (reentrantGrant(this.client, this.path, 'write')) return super.take(options);
    return acquire(this, 'read', options, READER);
  }
}

class ChildWatchWriteLock extends WriteLock {
  protected override take(options: AcquireOptions): Promise<Grant> {
    return acquire(this, 'write', options, WRITER);
  }
}

function acquire(
  lock: Lock,
  recipe: 'read' | 'write',
  options: AcquireOptions,
  names: typeof READER,
): Promise<Grant> {
  const { client, path } = lock;
  const spec = { ...names, parent: path, data: holderData(options.details) };
  return waitFor(
    lock,
    options,
    async (wait) => {
      const position = await retryAcrossSessions(client, wait.signal, (session) =>
        waitInSession(session, client, spec, wait),
      );
      return new Ownership(client, recipe, path, position).grant();
    },
    (grant) => grant.release(),
  );
}

/** Resolves to undefined if another client deleted our znode: the caller joins the queue again. */
async function waitInSession(
  session: Session,
  client: ZkClient,
  spec: QueueSpec & { readonly data: Uint8Array },
  { signal, onBlocked }: WaitContext,
): Promise<QueuePosition | undefined> {
  const { parent, marker, data } = spec;
  const { name, listing } = await protectedCreate(client, session, {
    parent,
    suffix: marker,
    data,
    mode: 'ephemeral-sequential',
  });
  const path = `${parent}/${name}`;
  const written = new NodeData(session, path, data);
  const listAndWatch = () =>
    retryRead(client, session, () => session.children(parent, { watch: true }), signal);
  try {
    const own = freshNode(spec, name);
    // The first listing is sent together with the create, and sets no watch.
    let seen: Listing & { readonly watch?: Watch } = listing ?? (await listAndWatch());
    for (; ; seen = await listAndWatch()) {
      try {
        signal.throwIfAborted();
        // The absence of our own znode does not prove that the lock is ours.
        if (!seen.children.includes(name)) return void (await session.guaranteedDelete(path));
        const ahead = spec.nodeAhead(queueOf(spec, seen.children), own);
        if (!ahead && session.trusted) {
          const position = { session, nodes: [path], children: [] };
          if (session.serverKind === 'zookeeper') return { ...position, zxid: seen.stat.pzxid };
          // Other servers do not raise the pzxid of a znode when a child is deleted.
          const { mzxid } = await retryRead(client, session, () => written.write(data), signal);
          if (session.trusted) return { ...position, zxid: mzxid };
        }
        if (!ahead) {
          // A pause may have outlived the session after the reply.
          await assertSameSession(client, session, signal);
        } else {
          onBlocked();
          if (seen.watch) await abortable(seen.watch.fired, signal);
        }
      } finally {
        seen.watch?.remove();
      }
    }
  } catch (error) {
    void session.guaranteedDelete(path);
    // Our znode is gone, perhaps with its parent, or another process has requested its revocation.
    if (error instanceof NodeError && ['NO_NODE', 'BAD_VERSION'].includes(error.code)) return;
    throw error;
  }
}
