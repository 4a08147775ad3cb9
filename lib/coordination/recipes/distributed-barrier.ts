import {
  ABORT_SIGNAL,
  checkBelowRoot,
  checkOptions,
  isCode,
  type Rules,
  type Session,
  type Stat,
  type ZkClient,
} from '../../client/index.js';
import {
  createPersistent,
  isLostReply,
  RecipeConflictError,
  WaitLimit,
  type WaitOptions,
} from '../../kernel/index.js';
import { watchExisting } from './internals/nodes.js';

/*
 * Barrier (Curator's DistributedBarrier): the barrier is set while a persistent znode exists. A waiter waits until
 * its watch on the znode fires, and looks again. It calls `sync` before it looks for the first time in a session.
 */

/**
 * The options of a barrier.
 *
 * @publicApi
 */
export interface BarrierOptions {
  /** Ends all waits of the object when it aborts; they reject with its reason. Default: none. */
  signal?: AbortSignal | undefined;
}

export const BARRIER_RULES: Rules<BarrierOptions> = { signal: ABORT_SIGNAL };

/**
 * A barrier that blocks all processes that wait at it until one process removes it. It shares the znode with Curator's
 * `DistributedBarrier`. The znode is persistent: the barrier stays set when its process ends.
 *
 * All methods reject as the operations of {@link ZkClient} do, and with a {@link RecipeConflictError} if the znode has
 * children: those of another recipe.
 *
 * @publicApi
 */
export class DistributedBarrier {
  private readonly stopping: AbortSignal | undefined;

  /** @throws BadOptionError if the path or an option is invalid */
  constructor(
    readonly client: ZkClient,
    /** The znode of the barrier. */
    readonly path: string,
    options: BarrierOptions = {},
  ) {
    checkBelowRoot(path);
    this.stopping = checkOptions(options, BARRIER_RULES).signal;
  }

  /**
   * Sets the barrier. Does nothing if it is set already.
   *
   * @throws ConnectionError with `maybeApplied: true` if the reply was lost and the barrier is not set now: another process
   *   may have removed it meanwhile
   */
  async setBarrier(): Promise<void> {
    try {
      if (await createPersistent(this.client, this.path)) return;
      this.assertOwnRecipe(await this.client.exists(this.path));
    } catch (error) {
      if (!(await this.isInState(true, error))) throw error;
    }
  }

  /**
   * Removes the barrier. All waits at it resolve then. Does nothing if it is not set.
   *
   * @throws ConnectionError with `maybeApplied: true` if the reply was lost and the barrier is set now: another process may
   *   have set it again
   */
  async removeBarrier(): Promise<void> {
    try {
      await this.client.delete(this.path);
    } catch (error) {
      if (isCode(error, 'NO_NODE')) return;
      if (isCode(error, 'NOT_EMPTY')) throw this.conflict();
      if (!(await this.isInState(false, error))) throw error;
    }
  }

  /**
   * Resolves when the barrier is not set.
   *
   * @throws WaitTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal; ConnectionError
   *   when the retry policy gives up
   */
  async waitOnBarrier(options: WaitOptions = {}): Promise<void> {
    const { path: key } = this;
    const failure = `the wait for the removal of barrier ${key} was not over`;
    const remedy = 'call removeBarrier(), or pass a longer wait';
    const description = { noun: 'barrier', key, failure, remedy } as const;
    await WaitLimit.run(description, options, this.stopping, async (limit) => {
      for (let synced: Session | undefined; ;) {
        const session = await limit.session(this.client);
        // The server may lag behind, and not have the barrier yet. Later it is not behind what this session has read.
        if (session !== synced) await limit.reply(this.client.sync(this.path));
        synced = session;
        const node = await limit.watched(watchExisting(this.client, this.path));
        if (!node) return;
        if (node.stat.numChildren > 0) {
          node.watch.remove();
          throw this.conflict();
        }
        await limit.waitFor(node.watch);
      }
    });
  }

  private assertOwnRecipe(stat: Stat | undefined): void {
    if (stat && stat.numChildren > 0) throw this.conflict();
  }

  /** Whether the barrier is in the state `set` after a request whose reply was lost. False after another error. */
  private async isInState(set: boolean, error: unknown): Promise<boolean> {
    if (!isLostReply(error)) return false;
    try {
      await this.client.sync(this.path);
      const stat = await this.client.exists(this.path);
      this.assertOwnRecipe(stat);
      return (stat !== undefined) === set;
    } catch {
      // The caller gets the first error.
      return false;
    }
  }

  private conflict(): RecipeConflictError {
    return new RecipeConflictError(
      `znode ${this.path} has children, so it belongs to another recipe than a barrier; use another path`,
      { key: this.path },
    );
  }
}
