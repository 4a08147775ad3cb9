import {
  abortable,
  ConnectionError,
  foreignText,
  ifExists,
  isCode,
  NotAuthorizedError,
  type Session,
  whenSettled,
  type ZkClient,
} from '../../client/index.js';
import { assertSameSession, RecipeConflictError, retryRead } from '../../kernel/index.js';
import { readEach } from './internals/read-each.js';
import {
  type Assignment,
  decodeAssignment,
  decodeCount,
  encodeAssignment,
  partitionsByMember,
} from './partition-assignment.js';

/** The members of a group and their assignment, with watches on both. */
export interface GroupView {
  /** Undefined if there was none yet. */
  readonly assignment: Assignment | undefined;
  /** The ids of the members, sorted. */
  readonly members: readonly string[];
  /** The version of the data. */
  readonly version: number;
  /** Calls `wake` when the members or the assignment may have changed. */
  onChange(wake: () => void): () => void;
  /** Removes the watches. */
  unwatch(): void;
}

/** The znode of a group of partitioners: its children are the members, its data is the assignment. */
export class PartitionGroup {
  /** Whether a child is a member, for the children that were read. */
  private readonly known = new Map<string, boolean>();

  /**
   * @param id the member of this process
   * @param onForeign called once for each child that is no member
   */
  constructor(
    private readonly client: ZkClient,
    private readonly path: string,
    private readonly id?: string,
    private readonly onForeign: (error: Error) => void = () => {},
  ) {}

  async read(): Promise<Pick<GroupView, 'assignment' | 'members'>> {
    const { path, client } = this;
    try {
      const { data } = await client.get(path);
      const { children } = await client.children(path);
      const assignment = decodeAssignment(path, data);
      return { assignment, members: await this.membersOf(children) };
    } catch (error) {
      if (isCode(error, 'NO_NODE')) return { assignment: undefined, members: [] };
      throw error;
    }
  }

  /** Reads the number of partitions that a member has; undefined if it is gone. */
  async countOf(member: string): Promise<number | undefined> {
    const node = await ifExists(this.client.get(`${this.path}/${member}`));
    return node && decodeCount(node.data);
  }

  /** Reads the members, and the partitions that are assigned to each of them. */
  async assignment(): Promise<ReadonlyMap<string, readonly number[]>> {
    const { assignment, members } = await this.read();
    const assigned = assignment && partitionsByMember(assignment);
    return new Map(members.map((member) => [member, assigned?.get(member) ?? []]));
  }

  async watch(session: Session, signal: AbortSignal): Promise<GroupView> {
    const { path, client } = this;
    const options = { watch: true } as const;
    const get = () => session.get(path, options);
    const { data, stat, watch } = await retryRead(client, session, get, signal);
    const watches = [watch];
    try {
      const assignment = decodeAssignment(path, data);
      const list = () => session.children(path, options);
      const listing = await retryRead(client, session, list, signal);
      watches.push(listing.watch);
      const members = await abortable(this.membersOf(listing.children), signal);
      return {
        assignment,
        members,
        version: stat.version,
        onChange: whenSettled(...watches.map(({ fired }) => fired)),
        unwatch: () => watches.forEach((each) => each.remove()),
      };
    } catch (error) {
      for (const each of watches) each.remove();
      throw error;
    }
  }

  /** Writes an assignment, unless another member has written one since `version`. The caller reads it again. */
  async write(
    session: Session,
    assignment: Assignment,
    version: number,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await session.set(this.path, encodeAssignment(assignment), version);
    } catch (error) {
      if (error instanceof ConnectionError) await assertSameSession(this.client, session, signal);
      else if (!isCode(error, 'BAD_VERSION')) throw error;
    }
  }

  /** Returns the children that are members, sorted. Reads those that it does not know as members. */
  private async membersOf(children: readonly string[]): Promise<string[]> {
    const present = new Set(children);
    for (const name of this.known.keys()) if (!present.has(name)) this.known.delete(name);
    const isMember = await readEach(children, (name) => this.isMember(name));
    return children.filter((_, index) => isMember[index]).sort();
  }

  private async isMember(name: string): Promise<boolean> {
    if (name === this.id || this.known.get(name)) return true;
    const path = `${this.path}/${name}`;
    const isMember = await this.readIsMember(path);
    // It is gone. The watch on the children has fired.
    if (isMember === undefined) return false;
    if (!isMember && !this.known.has(name)) {
      const message = `znode ${this.path}/${foreignText(name)} is no ephemeral znode with a number of partitions, so it is ignored as a member: delete it, or use another path for the group`;
      this.onForeign(new RecipeConflictError(message, { key: this.path }));
    }
    this.known.set(name, isMember);
    return isMember;
  }

  /** Resolves to undefined if the znode does not exist. */
  private async readIsMember(path: string): Promise<boolean | undefined> {
    try {
      const { data, stat } = await this.client.get(path);
      return stat.ephemeralOwner !== '0' && decodeCount(data) !== undefined;
    } catch (error) {
      if (isCode(error, 'NO_NODE')) return undefined;
      if (!(error instanceof NotAuthorizedError)) throw error;
      const stat = await this.client.exists(path);
      return stat && stat.ephemeralOwner !== '0';
    }
  }
}
