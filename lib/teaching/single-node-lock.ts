import { randomUUID } from 'node:crypto';
import {
  ConnectionError,
  NodeError,
  type NodeErrorCode,
  NotAuthorizedError,
  type Session,
  type Stat,
  type Watch,
  type ZkClient,
} from '../client/index.js';
import { abortable } from '../client/sleep.js';
import { checkBelowRoot, checkOptions } from '../client/validation.js';
import { IllegalStateError, LeaseLostError, RecipeConflictError } from '../recipes/errors.js';
import { retryAcrossSessions } from '../recipes/internals/queue.js';
import { assertSameSession, retryRead, stateChange } from '../recipes/internals/session-retry.js';
import {
  cancelled,
  connectWithin,
  Waiter,
  type Wanted,
  type WaitRequest,
} from '../recipes/internals/waiter.js';
import { type AcquireOptions, WAIT_RULES, type Lease, LeaseBase } from '../recipes/lease.js';

/*
 * FOR TEACHING. The lock on a single ephemeral znode, the first one of every book:
 *
 *   1. Create the ephemeral znode `path`. The client that succeeds holds the lock.
 *   2. Every other client watches that znode, and tries to create it again when it is deleted.
 *   3. The release deletes the znode. The end of the holder's session deletes it too.
 *
 * The herd effect: a release wakes all n waiters, and all of them try to create the znode. One succeeds; n - 1 woke in
 * vain, wrote in vain and set their watch again. There is no order either: a waiter may starve. And a fixed name does
 * not show whose znode it is: a client that repeats a delete whose reply was lost may delete the znode of the next
 * holder. Therefore each znode carries an id here.
 *
 * Use `Mutex` instead. It wakes one waiter, in the order of arrival, and each znode has a unique name.
 * `npm run bench:herd` measures both.
 */

/**
 * The options of {@link SingleNodeLock.acquire}.
 *
 * @publicApi
 */
export type SingleNodeOptions = Pick<AcquireOptions, 'wait' | 'signal'>;

/**
 * An exclusive lock on the ephemeral znode `path`, **for teaching**: every release wakes every waiter. Use `Mutex`.
 * It is not reentrant: a holder that acquires it again waits for itself.
 *
 * @publicApi
 */
export class SingleNodeLock {
  /** @throws BadOptionError if `path` is not a znode below the root */
  constructor(
    readonly client: ZkClient,
    readonly path: string,
  ) {
    checkBelowRoot(path);
  }

  /** Runs `fn` while it holds the lock, and releases the lock when `fn` has settled. */
  async withLock<T>(fn: (lease: Lease) => T | Promise<T>, options?: SingleNodeOptions): Promise<T> {
    const lease = await this.acquire(options);
    try {
      return await fn(lease);
    } finally {
      await lease.release();
    }
  }

  /** Acquires the lock until the lease is released. Rejects as `Mutex.acquire` does. */
  async acquire(options: SingleNodeOptions = {}): Promise<Lease> {
    checkOptions(options, WAIT_RULES);
    const wanted = { noun: 'lock', key: this.path } as const;
    const rest = await connectWithin(wanted, options, (signal) => this.client.session({ signal }));
    return waitFor(
      wanted,
      rest,
      (wait) =>
        retryAcrossSessions(this.client, wait.signal, (session) => this.acquireIn(session, wait)),
      (lease) => void lease.release(),
    );
  }

  private async acquireIn(session: Session, { signal, onBlocked }: WaitContext): Promise<Lease> {
    const own: OwnNode = { client: this.client, session, path: this.path, id: randomUUID() };
    try {
      for (;;) {
        signal.throwIfAborted();
        // The znode itself shows whether the create succeeded, so a lost reply makes no difference.
        await this.tryCreate(own, signal);
        const found = await this.read(session, signal);
        if (!found) continue;
        const { data, stat, watch } = found;
        const ours = stat.ephemeralOwner === session.id && data.toString() === own.id;
        if (ours && session.trusted) return new SingleNodeLease(own, stat.czxid, watch);
        try {
          if (ours) {
            // A pause may have outlived the session after the reply.
            await assertSameSession(this.client, session, signal);
          } else if (stat.ephemeralOwner === '0') {
            throw new RecipeConflictError(
              `${this.path} is not a lock: its znode is not ephemeral; use another path`,
            );
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
      if (error instanceof ConnectionError) {
        await assertSameSession(this.client, session, signal);
      } else if (isCode(error, 'NO_NODE')) {
        await this.client.ensureContainers(path.slice(0, path.lastIndexOf('/')) || '/');
      } else if (!isCode(error, 'NODE_EXISTS')) {
        throw error;
      }
    }
  }

  /** Resolves to undefined if there is no znode. Not an exists request: its watch would remain on a missing znode. */
  private async read(
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

function isCode(error: unknown, code: NodeErrorCode): boolean {
  return error instanceof NodeError && error.code === code;
}

/** A znode that this session created, if its data is `id`. */
interface OwnNode {
  readonly client: ZkClient;
  readonly session: Session;
  readonly path: string;
  readonly id: string;
}

/** The lease on the lock. It ends by a release, with the session, or when another client deletes the znode. */
class SingleNodeLease extends LeaseBase {
  readonly fencingToken: bigint;
  /** Never aborts: this lock cannot be revoked. */
  readonly revocation = new AbortController().signal;
  private state: 'held' | 'released' | 'lost' = 'held';
  private readonly loss = new AbortController();
  private readonly unsubscribe: () => void;
  private deleted: Promise<void> | undefined;

  constructor(
    private readonly node: OwnNode,
    czxid: number,
    private watch: Watch,
  ) {
    super();
    // Each holder creates the znode, so the zxid of its creation rises from holder to holder.
    this.fencingToken = BigInt(czxid);
    this.unsubscribe = node.session.onUntrusted((reason) => this.lose(reason));
    void this.follow();
  }

  get key(): string {
    return this.node.path;
  }

  get path(): string {
    return this.node.path;
  }

  get signal(): AbortSignal {
    // After a pause this notices a loss, and aborts the signal before the caller sees it.
    void this.held;
    return this.loss.signal;
  }

  get held(): boolean {
    return this.state === 'held' && this.node.session.trusted;
  }

  /** Always rejects: the znodes of all holders have one name, so a check that it exists proves nothing. */
  async transaction(): Promise<never> {
    throw new IllegalStateError(`the lock on ${this.path} has no transactions`, { key: this.key });
  }

  protected override giveBack(): Promise<void> {
    if (this.state === 'held') this.end('released');
    return this.deleted!;
  }

  private lose(cause: Error): void {
    if (this.state !== 'held') return;
    this.end('lost');
    const message = `the lock on ${this.path} was lost: ${cause.message}`;
    this.loss.abort(new LeaseLostError(message, { cause }));
  }

  private end(state: 'released' | 'lost'): void {
    this.state = state;
    this.unsubscribe();
    this.watch.remove();
    this.deleted = deleteOwn(this.node);
  }

  /** Reads the znode again after each change. */
  private async follow(): Promise<void> {
    const { client, session, path, id } = this.node;
    await this.watch.fired;
    while (this.held) {
      try {
        const { data, watch } = await session.get(path, { watch: true });
        if (!this.held) return watch.remove();
        this.watch = watch;
        if (data.toString() !== id) return this.lose(new Error(`${path} was deleted`));
        await watch.fired;
      } catch (error) {
        if (error instanceof NodeError) return this.lose(new Error(`${path} was deleted`));
        if (!(error instanceof ConnectionError)) return this.lose(error as Error);
        await stateChange(client);
      }
    }
  }
}

/**
 * Deletes the znode if it is ours; in the background while there is no connection. `Session.guaranteedDelete` knows only the
 * name: after a lost reply it would repeat the delete, which could hit the znode of the next holder.
 */
async function deleteOwn(node: OwnNode): Promise<void> {
  const { client, session, path, id } = node;
  try {
    const { data } = await session.get(path);
    if (data.toString() === id) await session.delete(path);
  } catch (error) {
    if (error instanceof ConnectionError) void stateChange(client).then(() => deleteOwn(node));
    // After any other error the znode is gone, or will be deleted with its session.
    else if (error instanceof NotAuthorizedError) process.emitWarning(error);
  }
}

export interface WaitContext {
  /** Aborts when the wait has ended. */
  readonly signal: AbortSignal;
  /** Called when another client holds the lock. */
  readonly onBlocked: () => void;
}

/** Limits `acquire` by the options of the caller. A result that comes after the end of the wait is passed to `giveBack`. */
export async function waitFor<T>(
  wanted: Wanted,
  { wait = Infinity, signal }: SingleNodeOptions,
  acquire: (wait: WaitContext) => Promise<T>,
  giveBack: (result: T) => void,
): Promise<T> {
  if (signal?.aborted) throw cancelled(wanted, signal);
  const end = new AbortController();
  const waiter = new Waiter<T, WaitRequest>({ wanted, wait, signal }, { leave: () => end.abort() });
  acquire({ signal: end.signal, onBlocked: () => waiter.blocked() }).then(
    (result) => {
      if (!waiter.resolve(result)) giveBack(result);
    },
    (error: unknown) => waiter.reject(error),
  );
  return waiter.promise;
}
