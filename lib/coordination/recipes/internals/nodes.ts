import {
  BadOptionError,
  checkData,
  checkRequest,
  ifExists,
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

/** Watches a znode; resolves to undefined if it does not exist. In contrast to a watch of `exists`, none is left then. */
export function watchExisting(
  client: ZkClient,
  path: string,
): Promise<{ stat: Stat; watch: Watch } | undefined> {
  return ifExists(client.watch(path));
}
