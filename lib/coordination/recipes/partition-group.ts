import { ConnectionError, type Session, type ZkClient } from '../../client/index.js';
import { whenSettled } from '../../client/sleep.js';
import { assertSameSession, retryRead } from '../../recipes/internals/session-retry.js';
import { isNodeError } from './internals/nodes.js';
import {
  type Assignment,
  decodeAssignment,
  decodeCount,
  encodeAssignment,
  partitionsOf,
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
  constructor(
    private readonly client: ZkClient,
    private readonly path: string,
  ) {}

  async read(): Promise<Pick<GroupView, 'assignment' | 'members'>> {
    const { path, client } = this;
    try {
      const { data } = await client.get(path);
      const { children } = await client.children(path);
      return { assignment: decodeAssignment(path, data), members: children.sort() };
    } catch (error) {
      if (isNodeError(error, 'NO_NODE')) return { assignment: undefined, members: [] };
      throw error;
    }
  }

  /** Reads the number of partitions that a member has; undefined if it is gone. */
  async countOf(member: string): Promise<number | undefined> {
    try {
      return decodeCount((await this.client.get(`${this.path}/${member}`)).data);
    } catch (error) {
      if (isNodeError(error, 'NO_NODE')) return undefined;
      throw error;
    }
  }

  /** Reads the members, and the partitions that are assigned to each of them. */
  async assignment(): Promise<ReadonlyMap<string, readonly number[]>> {
    const { assignment, members } = await this.read();
    const indexes = (member: string) => (assignment ? partitionsOf(assignment, member) : []);
    return new Map(members.map((member) => [member, indexes(member)]));
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
      return {
        assignment,
        members: listing.children.sort(),
        version: stat.version,
        onChange: whenSettled(...watches.map(({ fired }) => fired)),
        unwatch: () => watches.forEach((each) => each.remove()),
      };
    } catch (error) {
      watch.remove();
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
      else if (!isNodeError(error, 'BAD_VERSION')) throw error;
    }
  }
}
