import {
  checkBelowRoot,
  checkOptions,
  checkValue,
  ConnectionError,
  ifExists,
  isCode,
  type Session,
  type Stat,
  wholeNumber,
  type ZkClient,
} from '../../client/index.js';
import {
  IllegalStateError,
  isLostReply,
  queueOf,
  WaitLimit,
  type WaitOptions,
} from '../../kernel/index.js';
import { BARRIER_RULES, type BarrierOptions } from './distributed-barrier.js';
import { BarrierMember } from './internals/barrier-member.js';
import { watchExisting } from './internals/nodes.js';

/*
 * Double barrier (Curator's DistributedDoubleBarrier, and the recipe of the ZooKeeper documentation):
 *
 *   Enter: create an ephemeral znode. The member that counts enough of them creates `ready`; the others watch `ready`.
 *   Leave: all members but the one with the lowest name delete their znodes and watch the lowest. The lowest watches the
 *   highest, until only its own znode is left, and deletes it. Then `ready` is deleted.
 *
 * Curator and the documentation have flaws that this file avoids. (1) A `ready` that crashed members left behind does not open
 * the barrier: if it is older than every member, it is deleted. (2) A member that leaves ignores a member that entered again
 * after the call. (3) A member whose `leave()` failed does not enter the same round again. (4) A member deletes only the
 * `ready` of its own round.
 */

const READY = 'ready';

/**
 * A barrier that lets its members begin together and end together. It shares the znodes with Curator's
 * `DistributedDoubleBarrier`. One object is one member, which may enter again after it has left.
 *
 * All methods reject as the operations of {@link ZkClient} do, and with a `RecipeConflictError` if another recipe
 * uses the path.
 *
 * @publicApi
 */
export class DistributedDoubleBarrier {
  private readonly stopping: AbortSignal | undefined;
  private state: 'outside' | 'entering' | 'inside' | 'leaving' = 'outside';
  private member: BarrierMember | undefined;
  /** The session of the latest znode, and the names of its znodes that may exist. */
  private session: Session | undefined;
  private names: string[] = [];
  /** Whether the last `leave()` failed, so that other members of its round may still be inside. */
  private leaveFailed = false;

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
    checkValue('members', members, wholeNumber(1));
    this.stopping = checkOptions(options, BARRIER_RULES).signal;
  }

  /**
   * Aborts with a `LeaseLostError` when this member is lost after it has entered, because its session ended or
   * another client deleted its znode. The other members then do not wait for it when they leave. Undefined before the
   * first `enter()`; each `enter()` makes a new signal.
   */
  get signal(): AbortSignal | undefined {
    return this.member?.signal;
  }

  /**
   * Enters, and resolves when enough members have entered. If the session ends meanwhile, it enters again with the next
   * one. A rejected call deletes its znode, and does not wait for the reply after its limit. The other members may have
   * entered before, because they counted the znode.
   *
   * A member that enters late, while others are inside, enters at once. After a `leave()` that failed, it first waits until
   * that round has ended: a member that leaves ends it, without waiting for members that came late. A process that crashes
   * and starts again counts as two members until its old session ends.
   *
   * @throws WaitTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   ConnectionError when the retry policy gives up; LeaseLostError if another client deletes the znode of this member;
   *   IllegalStateError if this object has entered already
   */
  async enter(options: WaitOptions = {}): Promise<void> {
    const { path: key, members } = this;
    const failure = `the wait for ${members} members to enter double barrier ${key} was not over`;
    const remedy = 'start the missing members, or pass a longer wait';
    const description = { noun: 'barrier', key, failure, remedy } as const;
    await WaitLimit.run(description, options, this.stopping, async (limit) => {
      const lost = this.state === 'inside' && this.member?.signal.aborted;
      if (this.state !== 'outside' && !lost) throw this.illegal('enter', 'outside');
      this.state = 'entering';
      try {
        if (this.leaveFailed) await this.untilRoundOver(limit);
        this.leaveFailed = false;
        while (!(await this.tryEnter(limit)));
        this.state = 'inside';
      } catch (error) {
        this.state = 'outside';
        throw error;
      }
    });
  }

  /**
   * Leaves, and resolves when all members that were inside at the time of the call have left. A call that rejects
   * deletes the znode of this member, so that the others do not wait for it, and does not wait for the reply after its limit.
   *
   * @throws WaitTimeoutError after `wait` milliseconds, by default never; WaitCancelledError by the signal;
   *   ConnectionError when the retry policy gives up; LeaseLostError if this member was lost before the call;
   *   IllegalStateError if this object has not entered
   */
  async leave(options: WaitOptions = {}): Promise<void> {
    const { path: key } = this;
    const failure = `the wait for the other members to leave double barrier ${key} was not over`;
    const remedy = 'call leave() in each member, or pass a longer wait';
    const description = { noun: 'barrier', key, failure, remedy } as const;
    await WaitLimit.run(description, options, this.stopping, async (limit) => {
      if (this.state !== 'inside') throw this.illegal('leave', 'inside');
      this.state = 'leaving';
      try {
        await this.leaveRound(this.member!, limit);
      } finally {
        this.state = 'outside';
      }
    });
  }

  private async leaveRound(member: BarrierMember, limit: WaitLimit): Promise<void> {
    let ready: Stat | undefined;
    try {
      member.signal.throwIfAborted();
      // The server may lag behind, and not have a member yet that entered late.
      await limit.reply(this.client.sync(this.path));
      ready = await limit.reply(this.client.exists(this.ready));
      await this.untilAllLeft(member, limit);
    } catch (error) {
      this.leaveFailed = !member.signal.aborted;
      throw error;
    } finally {
      await limit.reply(member.leave());
    }
    if (ready) await limit.reply(this.deleteReady(ready));
  }

  private get ready(): string {
    return `${this.path}/${READY}`;
  }

  /** Resolves to false if the session ended. */
  private async tryEnter(limit: WaitLimit): Promise<boolean> {
    const { client } = this;
    const session = await limit.session(client);
    if (this.session !== session) {
      // The ensemble may still keep the former session, whose znodes would be counted as other members.
      for (const name of this.names) await this.untilDeleted(name, limit);
      this.session = session;
      this.names = [];
    }
    try {
      const onNamed = (name: string) => void this.names.push(name);
      const member = await BarrierMember.create(client, session, this.path, limit, onNamed);
      this.member = member;
      // Those of earlier calls were deleted before this one was created.
      this.names = [member.name];
      await this.untilReady(member, limit).catch(async (error: unknown) => {
        await limit.reply(member.leave());
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
    const { client, ready } = this;
    for (;;) {
      await limit.session(client);
      const { stat, watch } = await limit.watched(client.watchExists(ready));
      let opened = false;
      try {
        const { names } = await limit.reply(this.readMembers());
        if (stat) {
          const older = await this.findOlder(stat, [member.name, ...names], limit);
          if (older !== undefined) return;
          await limit.reply(this.deleteReady(stat));
          continue;
        }
        if (names.length >= this.members) {
          if (await this.createReady(member, limit)) return;
          continue;
        }
        void watch.fired.then((event) => (opened = event === 'created'));
        await limit.waitFor(watch, member.signal);
      } finally {
        watch.remove();
      }
      // It may be deleted again, if the others have left meanwhile.
      if (opened) return;
    }
  }

  /**
   * Creates `ready` in the session of the member, because the count of the members is out of date in a later session.
   * Resolves to false if the connection was lost.
   */
  private async createReady({ session }: BarrierMember, limit: WaitLimit): Promise<boolean> {
    try {
      await limit.reply(session.create(this.ready));
    } catch (error) {
      if (error instanceof ConnectionError) return false;
      if (!isCode(error, 'NODE_EXISTS')) throw error;
    }
    return true;
  }

  /** Waits until no member of the current round is inside. */
  private async untilRoundOver(limit: WaitLimit): Promise<void> {
    for (;;) {
      await limit.session(this.client);
      const ready = await limit.reply(this.client.exists(this.ready));
      if (!ready) return;
      const { names } = await limit.reply(this.readMembers());
      const older = await this.findOlder(ready, names, limit);
      if (older === undefined) return;
      await this.untilDeleted(older, limit, ready.czxid);
    }
  }

  /** Finds a member that is older than `ready`. If there is none, members that crashed have left `ready`. */
  private async findOlder(
    ready: Stat,
    names: readonly string[],
    limit: WaitLimit,
  ): Promise<string | undefined> {
    for (const name of names) {
      const stat = await limit.reply(this.client.exists(`${this.path}/${name}`));
      if (stat && stat.czxid < ready.czxid) return name;
    }
    return undefined;
  }

  private async untilAllLeft(own: BarrierMember, limit: WaitLimit): Promise<void> {
    const { names, pzxid } = await limit.reply(this.readMembers());
    let others = names.filter((name) => name !== own.name).toSorted();
    let deleted = false;
    while (others.length > 0) {
      const isLowest = !deleted && own.name < others[0]!;
      if (!isLowest && !deleted) {
        await limit.reply(own.leave());
        deleted = true;
      }
      const watched = isLowest ? others.at(-1)! : others[0]!;
      await this.untilDeleted(watched, limit, pzxid);
      const present = new Set((await limit.reply(this.readMembers())).names);
      others = others.filter((name) => name !== watched && present.has(name));
    }
  }

  /**
   * @param latest the highest `czxid` to wait for. Curator uses the name of a member again, so a znode with a higher
   *   `czxid` is a new member.
   */
  private async untilDeleted(name: string, limit: WaitLimit, latest = Infinity): Promise<void> {
    for (;;) {
      await limit.session(this.client);
      const node = await limit.watched(watchExisting(this.client, `${this.path}/${name}`));
      if (!node) return;
      if (node.stat.czxid > latest) return node.watch.remove();
      await limit.waitFor(node.watch);
    }
  }

  private async readMembers(): Promise<{ names: string[]; pzxid: number }> {
    const listing = await ifExists(this.client.children(this.path));
    if (!listing) return { names: [], pzxid: 0 };
    const { children, stat } = listing;
    // It throws if another recipe uses the path.
    queueOf({ parent: this.path, markers: [] }, children);
    return { names: children.filter((name) => name !== READY), pzxid: stat.pzxid };
  }

  /**
   * Deletes the `ready` of this round only. A `ready` of a later round can have the same version, so a conditional delete is
   * not enough: a write first raises the version, and the delete is conditional on that version.
   */
  private async deleteReady({ czxid }: Stat): Promise<void> {
    const { client, ready } = this;
    for (;;) {
      try {
        const found = await client.exists(ready);
        if (found?.czxid !== czxid) return;
        const changed = await client.set(ready, '', found.version);
        if (changed.czxid !== czxid) return;
        await client.delete(ready, changed.version);
        return;
      } catch (error) {
        if (isCode(error, 'NO_NODE')) return;
        if (!isLostReply(error) && !isCode(error, 'BAD_VERSION')) throw error;
      }
    }
  }

  private illegal(method: string, expected: 'inside' | 'outside'): IllegalStateError {
    const message = `this member of double barrier ${this.path} is ${this.state}: ${method}() needs a member that is ${expected}`;
    return new IllegalStateError(message, { key: this.path });
  }
}
