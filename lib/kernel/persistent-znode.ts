import { ifExists, isCode } from '../client/errors.js';
import type { ZkClient } from '../client/index.js';
import { parentOf } from '../client/validation.js';

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
      if (isCode(error, 'NODE_EXISTS')) return false;
      if (!isCode(error, 'NO_NODE')) throw error;
      // The server may reap the container between the two calls, any number of times.
      await client.ensureContainers(parentOf(path));
    }
  }
}

/** Sets the data of a persistent znode, and creates it if it is missing, as {@link createPersistent} does. */
export async function setPersistent(
  client: ZkClient,
  path: string,
  data: Uint8Array,
): Promise<void> {
  while (!(await ifExists(client.set(path, data)))) {
    if (await createPersistent(client, path, data)) return;
  }
}
