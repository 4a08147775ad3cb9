import {
  asConnectionError,
  type NodeError,
  NotAuthorizedError,
  type Session,
  type ZkClient,
} from '../../../client/index.js';
import { isLostReply, retryRead, uniqueId } from '../../../kernel/index.js';

/** An ephemeral child of the znode that is written. */
interface Marker {
  readonly session: Session;
  readonly path: string;
  /** How often it was created or changed, so that its version is one less. */
  changes: number;
}

/**
 * Writes the data of a znode so that a lost reply can be resolved: in the same transaction it creates or changes a marker,
 * an ephemeral child of the znode that only this object writes. After a reconnection of the session, the version of the
 * marker proves whether the write was applied. The native transport has no transactions, and so no marker.
 */
export class WriteMarker {
  private marker: Marker | undefined;
  /** The server refused to create a marker, for example by the ACL of the znode. */
  private refused = false;

  constructor(
    private readonly client: ZkClient,
    private readonly path: string,
  ) {}

  /**
   * Sets the data if the znode has the version. Resolves to the new version.
   *
   * @throws ConnectionError with `maybeApplied: true` if it is not known whether the write was applied
   */
  async set(data: Uint8Array, version: number): Promise<number> {
    const { client, path } = this;
    for (;;) {
      if (client.transport === 'native' || this.refused) {
        return (await client.set(path, data, version)).version;
      }
      const session = await client.session();
      if (this.marker?.session !== session) {
        this.marker = { session, path: `${path}/${uniqueId()}write`, changes: 0 };
      }
      const { marker } = this;
      const mark =
        marker.changes === 0
          ? ({ create: marker.path, mode: 'ephemeral' } as const)
          : { set: marker.path, data: '', version: marker.changes - 1 };
      try {
        const [stat] = await session.transaction([{ set: path, data, version }, mark]);
        marker.changes++;
        return stat.version;
      } catch (error) {
        const failure = asConnectionError(error);
        const { index } = error as NodeError | NotAuthorizedError;
        // RaftKeeper does not say which operation it refuses. Without the marker, the write alone is refused or not.
        const isMarker =
          index === 1 || (error instanceof NotAuthorizedError && index === undefined);
        if (!failure && !isMarker) throw error;
        // Another client deleted the marker, or none can be created.
        if (!failure && marker.changes === 0) this.refused = true;
        else if (!failure) this.marker = undefined;
        else if (isLostReply(failure) && (await this.wasApplied(marker, failure))) {
          marker.changes++;
          return version + 1;
        }
      }
    }
  }

  /** Deletes the marker, when no other write follows soon. */
  clear(): void {
    const { marker } = this;
    if (marker && marker.changes > 0) void marker.session.guaranteedDelete(marker.path);
    this.marker = undefined;
  }

  /**
   * Whether the write whose reply was lost was applied. If not, it never will be: after a reconnection of the session, the
   * servers drop the requests of its old connection.
   *
   * @throws `failure` if this is not known
   */
  private async wasApplied({ session, path, changes }: Marker, failure: Error): Promise<boolean> {
    const { client } = this;
    try {
      await retryRead(client, session, () => session.sync(path));
      const stat = await retryRead(client, session, () => session.exists(path));
      if (stat?.version === changes) return true;
      if (stat?.version === changes - 1 || (!stat && changes === 0)) return false;
    } catch {
      // The session ended, or the retry policy has given up. The caller gets the first error.
    }
    void session.guaranteedDelete(path);
    this.marker = undefined;
    throw failure;
  }
}
