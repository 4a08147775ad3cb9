import { NodeError, type NodeErrorCode, type ZkClient } from '../../../client/index.js';

export function isNodeError(error: unknown, code: NodeErrorCode): boolean {
  return error instanceof NodeError && error.code === code;
}

/**
 * Creates a persistent znode, and its missing parents as containers, as Curator does. Resolves to false if it exists
 * already.
 *
 * @throws ConnectionError with `maybeApplied: true` if the reply to the create was lost
 */
export async function createPersistent(
  client: ZkClient,
  path: string,
  data?: Uint8Array,
): Promise<boolean> {
  for (;;) {
    try {
      await client.create(path, data);
      return true;
    } catch (error) {
      if (isNodeError(error, 'NODE_EXISTS')) return false;
      if (!isNodeError(error, 'NO_NODE')) throw error;
      // The server may reap the container between the two calls, any number of times.
      await client.ensureContainers(path.slice(0, path.lastIndexOf('/')) || '/');
    }
  }
}
