import { abortable } from '../client/sleep.js';
import { NodeError, type Session, type Watch, type ZkClient } from '../client/index.js';
import { reentrantGrant } from '../recipes/internals/call-chain.js';
import { protectedCreate, type Listing } from '../recipes/internals/protected-create.js';
import type { Grant } from '../recipes/internals/grant.js';
import { holderData } from '../recipes/internals/node-data.js';
import type { AcquireOptions } from '../recipes/lease.js';
import type { Lock, LockConstructorOptions } from '../recipes/lock.js';
import { type QueuePosition, retryAcrossSessions } from '../recipes/internals/queue.js';
import { freshNode, queueOf, type QueueSpec } from '../recipes/internals/node-names.js';
import { READER, ReadLock, WriteLock, WRITER } from '../recipes/read-write-lock.js';
import { Ownership } from '../recipes/internals/ownership.js';
import { assertSameSession, retryRead } from '../recipes/internals/session-retry.js';
import { awaitTurn, type Turn } from './single-node-lease.js';

/*
 * FOR TEACHING. The shared (read/write) lock with a child watch on the parent:
 *
 *   1. Create an ephemeral sequential node for reading or for writing under the path.
 *   2. List the path's children. A reader holds the lock when no write node stands before its own, a
 *      writer when no node at all does.
 *   3. Otherwise watch the children of the path, wait until any of them comes or goes, and list again.
 *   4. Releasing the lock deletes the node.
 *
 * The herd effect: whoever comes or goes wakes all n waiters, and each of them reads the whole list
 * again. On a release among writers one of them has the turn and n - 1 woke in vain; on an arrival all
 * of them did.
 *
 * Use `ReadWriteLock` instead. It has the same nodes in the same order, so that both exclude each other
 * on one path; but each waiter watches the one node that has to go before its turn. `npm run bench:herd`
 * measures both.
 */

/**
 * Many readers or one writer, **for teaching**: every arrival and every release wakes every waiter.
 * Use `ReadWriteLock`.
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
    // A writer reads beside its write node: it has its turn already and watches nothing.
    if (reentrantGrant(this.client, this.path, 'write')) return super.take(options);
    return waitInHerd(this, 'read', options, READER);
  }
}

class ChildWatchWriteLock extends WriteLock {
  protected override take(options: AcquireOptions): Promise<Grant> {
    return waitInHerd(this, 'write', options, WRITER);
  }
}

function waitInHerd(
  lock: Lock,
  recipe: 'read' | 'write',
  options: AcquireOptions,
  names: typeof READER,
): Promise<Grant> {
  const { client, path } = lock;
  const spec = { ...names, parent: path, data: holderData(options.details) };
  return awaitTurn(
    lock,
    options,
    async (turn) => {
      const position = await retryAcrossSessions(client, turn.signal, (session) =>
        takeTurnIn(session, client, spec, turn),
      );
      return new Ownership(client, recipe, path, position).grant();
    },
    (grant) => grant.abandon(),
  );
}

/** Undefined where somebody deleted our node: queue up again. */
async function takeTurnIn(
  session: Session,
  client: ZkClient,
  spec: QueueSpec,
  { signal, onBlocked }: Turn,
): Promise<QueuePosition | undefined> {
  const { parent, marker, data } = spec;
  const { name, listing } = await protectedCreate(client, session, {
    parent,
    suffix: marker,
    data,
    mode: 'ephemeral-sequential',
  });
  const path = `${parent}/${name}`;
  const listAndWatch = () =>
    retryRead(client, session, () => session.children(parent, { watch: true }), signal);
  try {
    const own = freshNode(spec, name);
    for (let seen: Seen = listing ?? (await listAndWatch()); ; seen = await listAndWatch()) {
      try {
        signal.throwIfAborted();
        // Our own node's absence is no proof of a turn.
        if (!seen.children.includes(name)) return undefined;
        const ahead = spec.nodeAhead(queueOf(spec, seen.children), own);
        if (!ahead && session.trusted) {
          return { session, nodes: [path], pzxid: seen.stat.pzxid, children: [] };
        }
        if (!ahead) {
          // A pause may have outlived the session between the answer and this line: ask once more.
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
    void session.discard(path);
    // The parent itself is gone, and our node with it.
    if (error instanceof NodeError && error.code === 'NO_NODE') return undefined;
    throw error;
  }
}

/** The first list comes with the create, in one flight, and is not watched. */
type Seen = Listing & { readonly watch?: Watch };
