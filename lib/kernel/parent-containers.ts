import { ConnectionError, type ZkClient } from '../client/index.js';
import { abortable } from '../client/sleep.js';
import { createContainers, deleteContainers } from '../client/zk-client.js';
import { stateChange } from './session-retry.js';

/** The missing parents of a znode that is about to be created. They are containers. */
export class ParentContainers {
  /** Full paths of the containers that this object has created, or may have. */
  private readonly created = new Set<string>();
  private ensured: Promise<void> | undefined;

  /** @param parent the parent of the znode */
  constructor(
    private readonly client: ZkClient,
    private readonly parent: string,
  ) {}

  /**
   * Creates the parents that are missing.
   *
   * @throws the reason of `signal`; what the server refuses
   */
  ensure(signal: AbortSignal | undefined): Promise<void> {
    this.ensured = createContainers(this.client, this.parent, this.created);
    return abortable(this.ensured, signal);
  }

  /**
   * Deletes a container that may never have had a child, in the background. Call it when the znode will not be created:
   * the server deletes a container only after its last child was deleted.
   */
  abandon(): void {
    void this.deleteUnused();
  }

  private async deleteUnused(): Promise<void> {
    // A container may still be on its way when the wait for it has ended.
    await this.ensured?.catch(() => {});
    while (this.created.size > 0) {
      try {
        return await deleteContainers(this.client, this.created);
      } catch (error) {
        // NOT_EMPTY: another client uses it. After any other answer an empty znode is left, which blocks nobody.
        if (!(error instanceof ConnectionError)) return;
        if (!this.client.connected) await stateChange(this.client);
      }
    }
  }
}
