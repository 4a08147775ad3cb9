import { abortable } from '../client/sleep.js';
import { randomUUID } from 'node:crypto';
import { BadOptionError } from '../client/errors.js';
import {
  ConnectionError,
  NodeError,
  type Session,
  type Stat,
  type Watch,
  type ZkClient,
} from '../client/index.js';
import { checkPath } from '../client/validation.js';
import { ForeignNodeError } from '../recipes/errors.js';
import { type AcquireOptions, checkAcquire, type Lease } from '../recipes/lease.js';
import { retryAcrossSessions } from '../recipes/internals/queue.js';
import { assertSameSession, retryRead } from '../recipes/internals/session-retry.js';
import { awaitTurn, type Turn } from './single-node-lease.js';
import { deleteOwn, type OwnNode, SingleNodeLease } from './single-node-lease.js';

/*
 * FOR TEACHING. The lock on a single ephemeral node, the first one of every book:
 *
 *   1. Create the ephemeral node `path`. Whoever succeeds holds the lock.
 *   2. Everybody else watches that one node, and when it goes tries to create it again.
 *   3. Releasing the lock deletes the node; the end of the holder's session deletes it too.
 *
 * The herd effect: a release wakes all n waiters, who all rush to create the node; one succeeds, and
 * n - 1 woke in vain, wrote in vain and set their watch anew. There is no order either: a waiter may
 * starve. And a fixed name cannot tell whose node it is: whoever deletes by name alone, once more after
 * an answer that was lost, deletes the lock of the next holder. Here each node carries an id of its own.
 *
 * Use `Mutex` instead: it wakes one waiter, in the order of arrival, and each node's name is its owner's.
 * `npm run bench:herd` measures both.
 */

/**
 * What an acquire takes here.
 *
 * @publicApi
 */
export type SingleNodeOptions = Pick<AcquireOptions, 'wait' | 'signal'>;

/**
 * An exclusive lock on the ephemeral node `path`, **for teaching**: every release wakes every waiter.
 * Use `Mutex`. It knows no re-entrancy: inside of itself it waits for itself.
 *
 * @publicApi
 */
export class SingleNodeLock {
  constructor(
    readonly client: ZkClient,
    readonly path: string,
  ) {
    if (checkPath(path) === '/') throw new BadOptionError('path', path, 'below the root');
  }

  /** Runs `fn` as the holder of the lock and releases it when `fn` has settled. */
  async withLock<T>(fn: (lease: Lease) => T | Promise<T>, options?: SingleNodeOptions): Promise<T> {
    const lease = await this.acquire(options);
    try {
      return await fn(lease);
    } finally {
      await lease.release();
    }
  }

  /** Takes the lock for whoever releases the lease. Rejects as `Mutex.acquire` does. */
  async acquire(options: SingleNodeOptions = {}): Promise<Lease> {
    checkAcquire(options);
    await this.client.session({ signal: options.signal });
    return awaitTurn(
      { noun: 'lock', key: this.path },
      options,
      (turn) =>
        retryAcrossSessions(this.client, turn.signal, (session) => this.takeIn(session, turn)),
      (lease) => void lease.release(),
    );
  }

  private async takeIn(session: Session, { signal, onBlocked }: Turn): Promise<Lease> {
    const own: OwnNode = { client: this.client, session, path: this.path, id: randomUUID() };
    try {
      for (;;) {
        signal.throwIfAborted();
        // Whether it succeeds is read from the node: then a lost answer makes no difference.
        await this.tryCreate(own, signal);
        const found = await this.look(session, signal);
        if (!found) continue;
        const { data, stat, watch } = found;
        const ours = stat.ephemeralOwner === session.id && data.toString() === own.id;
        if (ours && session.trusted) return new SingleNodeLease(own, stat.czxid, watch);
        try {
          if (ours) {
            // A pause may have outlived the session between the answer and this line: ask once more.
            await assertSameSession(this.client, session, signal);
          } else if (stat.ephemeralOwner === '0') {
            throw new ForeignNodeError(`${this.path} is no lock: no end of a session deletes it`);
          } else {
            onBlocked();
            await abortable(watch.fired, signal);
          }
        } finally {
          watch.remove();
        }
      }
    } catch (error) {
      void deleteOwn(own);
      throw error;
    }
  }

  private async tryCreate({ session, path, id }: OwnNode, signal: AbortSignal): Promise<void> {
    try {
      await session.create(path, id, { mode: 'ephemeral' });
    } catch (error) {
      if (error instanceof ConnectionError) await assertSameSession(this.client, session, signal);
      else if (isCode(error, 'NO_NODE')) await this.client.ensureContainers(parentOf(path));
      else if (!isCode(error, 'NODE_EXISTS')) throw error;
    }
  }

  /** Undefined where there is no node. Get sets no watch then; an exists watch would stay behind. */
  private async look(
    session: Session,
    signal: AbortSignal,
  ): Promise<{ data: Buffer; stat: Stat; watch: Watch } | undefined> {
    try {
      const read = () => session.get(this.path, { watch: true });
      return await retryRead(this.client, session, read, signal);
    } catch (error) {
      if (isCode(error, 'NO_NODE')) return undefined;
      throw error;
    }
  }
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

function isCode(error: unknown, code: NodeError['code']): boolean {
  return error instanceof NodeError && error.code === code;
}
