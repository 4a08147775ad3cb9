import type { Session, ZkClient } from '../../../client/index.js';
import { LeaseLostError } from '../../../recipes/errors.js';
import { NodeWatch } from '../../../recipes/internals/node-watch.js';

/** The ephemeral znode of a process at a double barrier. */
export class BarrierMember {
  private readonly lost = new AbortController();
  private readonly watch: NodeWatch;
  private readonly unsubscribe: () => void;

  constructor(
    client: ZkClient,
    readonly session: Session,
    private readonly parent: string,
    readonly name: string,
  ) {
    this.unsubscribe = session.onLost((cause) => this.lose('its session ended', cause));
    this.watch = new NodeWatch(
      client,
      { session, nodes: [this.path] },
      { deleted: () => this.lose(`another client deleted ${this.path}`), revoked: () => {} },
    );
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
