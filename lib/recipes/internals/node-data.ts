import { type Session, NodeError, type Stat } from '../../client/index.js';

/** The data that asks a holder to release its lock. Curator writes the same. */
export const REVOKE_MESSAGE = Buffer.from('__REVOKE__');

/**
 * The data of one znode of this process. Each write names the version that the write before it made, so a request for
 * revocation by another process is never overwritten.
 */
export class NodeData {
  /** Whether the znode still waits in its queue. Its holder writes it afterwards. */
  waiting = true;
  private version = 0;
  private wanted: Uint8Array;
  private updating: Promise<void> | undefined;
  private last: Promise<unknown> = Promise.resolve();
  /** Whether the reply to the last write was lost, so that the version is unknown. */
  private uncertain = false;
  private failure: NodeError | undefined;

  constructor(
    readonly session: Session,
    readonly path: string,
    /** The data that the server has. */
    public data: Uint8Array,
  ) {
    this.wanted = data;
  }

  /** Resolves when the update that is running has ended; undefined if none is. */
  get pending(): Promise<void> | undefined {
    return this.updating;
  }

  /**
   * Writes `data` after all earlier writes.
   *
   * @throws NodeError if another process has written or deleted the znode; ConnectionError, SessionExpiredError
   */
  write(data: Uint8Array): Promise<Stat> {
    const written = this.last.then(() => this.set(data));
    this.last = written.catch(() => {});
    return written;
  }

  /** Resolves when all writes have ended. Never rejects. */
  async settled(): Promise<void> {
    await this.last;
  }

  /** As {@link write}, but never rejects, and skips data that newer data replaces before it was sent. */
  update(data: Uint8Array): Promise<void> {
    this.wanted = data;
    this.updating ??= this.writeWanted().finally(() => (this.updating = undefined));
    return this.updating;
  }

  private async writeWanted(): Promise<void> {
    try {
      while (this.uncertain || Buffer.compare(this.data, this.wanted) !== 0) {
        await this.write(this.wanted);
      }
    } catch {
      // The next update tries again, unless another process has written the znode.
    }
  }

  private async set(data: Uint8Array): Promise<Stat> {
    if (this.failure) throw this.failure;
    try {
      if (this.uncertain) await this.readVersion();
      this.uncertain = true;
      const stat = await this.session.set(this.path, data, this.version);
      this.uncertain = false;
      this.version = stat.version;
      this.data = data;
      return stat;
    } catch (error) {
      if (error instanceof NodeError) {
        this.uncertain = false;
        this.wanted = this.data;
        this.failure = error;
      }
      throw error;
    }
  }

  private async readVersion(): Promise<void> {
    const { data, stat } = await this.session.get(this.path);
    if (data.equals(REVOKE_MESSAGE)) throw new NodeError('BAD_VERSION', this.path, -103, 'set');
    this.version = stat.version;
  }
}
