import {
  type CreateMode,
  isCode,
  parentOf,
  type Session,
  type ZkClient,
} from '../../../client/index.js';
import {
  deleteOwn,
  findUnique,
  isConnectionLoss,
  repeatCreate,
  uniqueId,
} from '../../../kernel/index.js';
import type { TtlChild } from './ttl-child.js';

/** The mode in which a sequential znode is created again at its path. */
const MODE_OF_PATH: Partial<Record<CreateMode, CreateMode>> = {
  'ephemeral-sequential': 'ephemeral',
  'persistent-sequential': 'persistent',
};

/**
 * A znode that is created again and again, at one path. The name of a sequential one begins with a unique id, so that a
 * create whose reply was lost is found and not repeated.
 */
export class RecreatedNode {
  /** The path of the znode since its first create, with the number of a sequential one. */
  path: string | undefined;
  private readonly parent: string;
  private readonly prefix: string;
  private readonly isSequential: boolean;
  /** Whether a create may have been applied without a reply. */
  private maybeCreated = false;
  /** The session of the last create. */
  private session: Session | undefined;

  /**
   * @param path without what a sequential mode adds
   * @param ttlChild its child, of a container with a TTL
   */
  constructor(
    private readonly client: ZkClient,
    path: string,
    private readonly mode: CreateMode,
    private readonly ttlChild?: TtlChild,
  ) {
    const slash = path.lastIndexOf('/');
    this.parent = parentOf(path);
    this.isSequential = mode in MODE_OF_PATH;
    this.prefix = this.isSequential
      ? `${path.slice(0, slash + 1)}${uniqueId()}${path.slice(slash + 1)}`
      : path;
  }

  /** Creates the znode, and its missing parents as containers. Resolves to false if it exists already. */
  async create(session: Session, data: Buffer, signal: AbortSignal): Promise<boolean> {
    const { client, parent } = this;
    this.session = session;
    return repeatCreate(client, session, { parent, signal }, async () => {
      signal.throwIfAborted();
      const path = await this.locate(session);
      const mode = this.path ? (MODE_OF_PATH[this.mode] ?? this.mode) : this.mode;
      this.maybeCreated = true;
      try {
        const { ttlChild } = this;
        const created =
          ttlChild?.createParent(session, data) ?? session.create(path, data, { mode });
        this.path = await created;
        return true;
      } catch (error) {
        if (!isCode(error, 'NODE_EXISTS')) throw error;
        this.path ??= path;
        return false;
      }
    });
  }

  /**
   * Deletes the znode, unless it is an ephemeral one of another session. An ephemeral one is deleted in the background
   * while there is no connection.
   */
  async delete(): Promise<void> {
    if (!this.maybeCreated) return;
    const { session, client } = this;
    if (session && this.mode.startsWith('ephemeral')) {
      return deleteOwn(client, session, this.prefix, () => this.locate(session));
    }
    let czxid: number | undefined;
    for (;;) {
      const current = await client.session();
      try {
        const path = await this.locate(current);
        // This server may lag behind the one that applied a create or delete whose reply was lost.
        await current.sync(path);
        const stat = await current.exists(path);
        if (!stat || !['0', current.id].includes(stat.ephemeralOwner)) return;
        // Another client has created it anew since a delete whose reply was lost.
        if (stat.czxid !== (czxid ??= stat.czxid)) return;
        return await current.delete(path);
      } catch (error) {
        if (isCode(error, 'NO_NODE')) return;
        if (!isConnectionLoss(error)) throw error;
      }
    }
  }

  /** Looks for a sequential znode that a create without a reply may have created. */
  private async locate(session: Session): Promise<string> {
    if (this.isSequential && this.maybeCreated) {
      this.path ??= await findUnique(session, this.prefix);
    }
    return this.path ?? this.prefix;
  }
}
