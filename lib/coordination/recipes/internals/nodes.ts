import {
  BadOptionError,
  checkData,
  checkRequest,
  isCode,
  parentOf,
  type Stat,
  type Watch,
  type ZkClient,
} from '../../../client/index.js';

/**
 * Returns a copy of the data of the znode `path`, because the caller may change its array afterwards.
 *
 * @throws BadOptionError if it is no string or Uint8Array, or too long
 */
export function copyData(path: string, data: string | Uint8Array | undefined): Buffer {
  if (data === undefined) throw new BadOptionError('data', data, 'a string or a Uint8Array');
  const checked = checkData(data);
  checkRequest('', path, checked);
  return Buffer.from(checked);
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
      if (isCode(error, 'NODE_EXISTS')) return false;
      if (!isCode(error, 'NO_NODE')) throw error;
      // The server may reap the container between the two calls, any number of times.
      await client.ensureContainers(parentOf(path));
    }
  }
}

/** Watches a znode; resolves to undefined if it does not exist. In contrast to a watch of `exists`, none is left then. */
export async function watchExisting(
  client: ZkClient,
  path: string,
): Promise<{ stat: Stat; watch: Watch } | undefined> {
  try {
    return await client.watch(path);
  } catch (error) {
    if (isCode(error, 'NO_NODE')) return undefined;
    throw error;
  }
}
