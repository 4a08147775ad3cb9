import { ConnectionError, type Session, type ZkClient } from '../../../client/index.js';
import {
  LeaseLostError,
  NodeWatch,
  protectedCreate,
  type WaitLimit,
} from '../../../kernel/index.js';

/** The end of the names of the members. */
const SUFFIX = 'member';

/** The ephemeral znode of a process at a double barrier. */
export class BarrierMember {
  private readonly lost = new AbortController();
  private readonly watch: NodeWatch;
  private readonly unsubscribe: () => void;

  /**
   * Creates the znode. If the limit is reached before the reply, the znode is deleted.
   *
   * @param onNamed called with the name of the znode before it is created
   */
  static async create(
    client: ZkClient,
    session: Session,
    parent: string,
    limit: WaitLimit,
    onNamed: (name: string) => void,
  ): Promise<BarrierMember> {
    let path = '';
    const created = protectedCreate(client, session, {
      parent,
      suffix: SUFFIX,
      data: Buffer.alloc(0),
      mode: 'ephemeral',
      signal: limit.signal,
      onNamed: (prefix) => {
        path = `${parent}/${prefix}${SUFFIX}`;
        onNamed(prefix + SUFFIX);
      },
    });
    try {
      const { name } = await limit.reply(created);
      return new BarrierMember(client, session, parent, name);
    } catch (error) {
      if (limit.signal.aborted || error instanceof ConnectionError) {
        const remove = () => session.guaranteedDelete(path);
        // Before the create of a later call in this session, so that the two znodes are not counted as two members.
        void remove();
        // The create may have been sent after the abort.
        created.then(remove, () => {});
      }
      throw error;
    }
  }

  private constructor(
    client: ZkClient,
    readonly session: Session,
    private readonly parent: string,
    readonly name: string,
  ) {
    // Before the listener: it reads the clock, and so may be the first to notice the end of the session.
    this.watch = new NodeWatch(
      client,
      { session, nodes: [this.path] },
      { deleted: () => this.lose(`another client deleted ${this.path}`), read: () => {} },
    );
    this.unsubscribe = session.onLost((cause) => this.lose('its session ended', cause));
  }

  get path(): string {
    return `${this.parent}/${this.name}`;
  }

  /** Aborts with a LeaseLostError when the znode is gone. */
  get signal(): AbortSignal {
    return this.lost.signal;
  }

  /** Deletes the znode. */
  async leave(): Promise<void> {
    this.stop();
    await this.session.guaranteedDelete(this.path);
  }

  private stop(): void {
    this.unsubscribe();
    this.watch.stop();
  }

  private lose(why: string, cause?: Error): void {
    this.stop();
    const message = `this process is no longer a member of double barrier ${this.parent}: ${why}`;
    this.lost.abort(new LeaseLostError(message, { key: this.parent, cause }));
  }
}
