import type { Session, Stat, ZkClient } from '../../client/index.js';
import { checkBelowRoot, checkOptions, checkSignal } from '../../client/validation.js';
import { IllegalStateError } from '../../recipes/errors.js';
import { queueOf } from '../../recipes/internals/node-names.js';
import { protectedCreate } from '../../recipes/internals/protected-create.js';
import { checkPositive } from '../../recipes/permit-limit.js';
import { BARRIER_OPTIONS, type BarrierOptions } from './distributed-barrier.js';
import { BarrierMember } from './internals/barrier-member.js';
import { createPersistent, isNodeError, retryLostReply, watchExisting } from './internals/nodes.js';
import { WaitLimit, type WaitOptions } from './internals/wait-limit.js';

/*
 * Double barrier (Curator's DistributedDoubleBarrier, and the recipe of the ZooKeeper documentation):
 *
 *   Enter: create an ephemeral znode. The member that counts enough of them creates `ready`; the others watch `ready`.
 *   Leave: all members but the one with the lowest name delete their znodes and watch the lowest. The lowest watches the
 *   highest, until only its own znode is left, and deletes it. Then `ready` is deleted.
 *
 * Curator and the documentation have two flaws, which this file avoids. A `ready` that is older than all members belongs
 * to members that crashed; it is deleted, and opens nothing. And a member that enters again, while others still leave, is
 * not one that they wait for.
 */

const READY = 'ready';
/** The end of the names of the members. */
const SUFFIX = 'member';

/**
 * A barrier that lets its members begin together and end together. It shares the znodes with Curator's
 * `DistributedDoubleBarrier`. One object is one member, which may enter again after it has left.
 *
 * All methods reject as the operations of {@link ZkClient} do, and with a {@link RecipeConflictError} if another recipe
 * uses the path.
 *
 * @publicApi
 */
export class DistributedDoubleBarrier {
  private readonly stopping: AbortSignal | undefined;
  private state: 'outside' | 'entering' | 'inside' | 'leaving' = 'outside';
  private member: BarrierMember | undefined;
  /** The znode that was created last, if it was created. */
  private latest: { readonly session: Session; readonly name: string } | undefined;

  /**
   * @param members the number of members that must enter; the same in all processes
   * @throws BadOptionError if an argument is invalid
   */
  constructor(
    readonly client: ZkClient,
    /** The parent znode of the members. */
    readonly path: string,
    readonly members: number,
    options: BarrierOptions = {},
  ) {
    checkBelowRoot(path);
    checkPositive('members', members);
    this.stopping = checkSignal(checkOptions(options, BARRIER_OPTIONS).signal);
  }

  /**
   * Aborts with a {@link LeaseLostError} when this member is lost after it has entered, because its session ended or
   * another client deleted its znode. The other members then do not wait for it when they leave. Undefined before the
   * first `enter()`; each `enter()` makes a new signal.
   */
  get signal(): AbortSignal | undefined {
    return this.member?.signal;
  }

  /**
   * Enters, and resolves when enough members have entered. If the session ends meanwhile, it enters again with the next
   * one. A rejected call leaves no znode; yet the other members may have begun, if they counted it just before.
   *
   * @throws LockTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   ConnectionError when the retry policy gives up; LeaseLostError if another client deletes the znode of this member;
   *   IllegalStateError if this object has entered already
   */
  async enter(options: WaitOptions = {}): Promise<void> {
    const limit = new WaitLimit(this.path, options, this.stopping);
    const lost = this.state === 'inside' && this.member?.signal.aborted;
    if (this.state !== 'outside' && !lost) throw this.illegal();
    this.state = 'entering';
    try {
      while (!(await this.tryEnter(limit)));
      this.state = 'inside';
    } catch (error) {
      this.state = 'outside';
      throw error;
    }
  }

  /**
   * Leaves, and resolves when all members have left that had not left before the call. A call that rejects has deleted
   * the znode of this member, so that the others do not wait for it.
   *
   * @throws LockTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   ConnectionError when the retry policy gives up; LeaseLostError if this member was lost before the call;
   *   IllegalStateError if this object has not entered
   */
  async leave(options: WaitOptions = {}): Promise<void> {
    const limit = new WaitLimit(this.path, options, this.stopping);
    if (this.state !== 'inside') throw this.illegal();
    const member = this.member!;
    this.state = 'leaving';
    try {
      member.signal.throwIfAborted();
      await this.untilAllLeft(member, limit);
    } finally {
      await member.leave();
      this.state = 'outside';
    }
    await this.deleteReady();
  }

  /** Resolves to false if the session ended. */
  private async tryEnter(limit: WaitLimit): Promise<boolean> {
    const { client, path: parent, latest } = this;
    const session = await client.session({ signal: limit.signal });
    // A server may still keep the session of the last znode, which would be counted as another member.
    if (latest && latest.session !== session) await this.untilDeleted(latest.name, limit);
    try {
      const { name } = await protectedCreate(client, session, {
        ...{ parent, suffix: SUFFIX, data: Buffer.alloc(0), mode: 'ephemeral' },
        ...(limit.signal && { signal: limit.signal }),
        onNamed: (prefix) => (this.latest = { session, name: prefix + SUFFIX }),
      });
      const member = (this.member = new BarrierMember(client, session, parent, name));
      await this.untilReady(member, limit).catch(async (error: unknown) => {
        await member.leave();
        throw error;
      });
      return true;
    } catch (error) {
      limit.check();
      if (session.alive) throw error;
      return false;
    }
  }

  private async untilReady(member: BarrierMember, limit: WaitLimit): Promise<void> {
    const { client, path } = this;
    const ready = `${path}/${READY}`;
    for (;;) {
      await client.session({ signal: limit.signal });
      limit.check();
      const { stat, watch } = await client.watchExists(ready);
      let opened = false;
      try {
        const { names } = await this.readMembers();
        if (stat && (await this.isCurrent(stat, member, names))) return;
        if (stat) {
          await this.deleteReady();
          continue;
        }
        if (names.length >= this.members) {
          await retryLostReply(() => createPersistent(client, ready));
          return;
        }
        void watch.fired.then((event) => (opened = event === 'created'));
        await limit.until(watch, member.signal);
      } finally {
        watch.remove();
      }
      // It may be deleted again, if the others have left meanwhile.
      if (opened) return;
    }
  }

  /** Whether `ready` was created after a present member. Otherwise it was left by members that crashed. */
  private async isCurrent(
    ready: Stat,
    own: BarrierMember,
    names: readonly string[],
  ): Promise<boolean> {
    for (const name of [own.name, ...names]) {
      const stat = await this.client.exists(`${this.path}/${name}`);
      if (stat && stat.czxid < ready.czxid) return true;
    }
    return false;
  }

  private async untilAllLeft(own: BarrierMember, limit: WaitLimit): Promise<void> {
    const { names, pzxid } = await this.readMembers();
    let others = names.filter((name) => name !== own.name).toSorted();
    let deleted = false;
    while (others.length > 0) {
      const isLowest = !deleted && own.name < others[0]!;
      if (!isLowest && !deleted) {
        await own.leave();
        deleted = true;
      }
      const watched = isLowest ? others.at(-1)! : others[0]!;
      await this.untilDeleted(watched, limit, pzxid);
      const present = new Set((await this.readMembers()).names);
      others = others.filter((name) => name !== watched && present.has(name));
    }
  }

  /**
   * @param latest the latest transaction that may have created the znode. A later one of the same name, as Curator creates
   *   it, is another member.
   */
  private async untilDeleted(name: string, limit: WaitLimit, latest = Infinity): Promise<void> {
    for (;;) {
      await this.client.session({ signal: limit.signal });
      limit.check();
      const node = await watchExisting(this.client, `${this.path}/${name}`);
      if (!node) return;
      if (node.stat.czxid > latest) return node.watch.remove();
      await limit.until(node.watch);
    }
  }

  private async readMembers(): Promise<{ names: string[]; pzxid: number }> {
    try {
      const { children, stat } = await this.client.children(this.path);
      // It throws if another recipe uses the path.
      queueOf({ parent: this.path, markers: [] }, children);
      return { names: children.filter((name) => name !== READY), pzxid: stat.pzxid };
    } catch (error) {
      if (!isNodeError(error, 'NO_NODE')) throw error;
      return { names: [], pzxid: 0 };
    }
  }

  private async deleteReady(): Promise<void> {
    try {
      await retryLostReply(() => this.client.delete(`${this.path}/${READY}`));
    } catch (error) {
      if (!isNodeError(error, 'NO_NODE')) throw error;
    }
  }

  private illegal(): IllegalStateError {
    return new IllegalStateError(
      `this member of double barrier ${this.path} is ${this.state}: enter() needs outside, leave() needs inside`,
      { key: this.path },
    );
  }
}
