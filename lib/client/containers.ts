import { ErrorCode } from '../protocol/codes.js';
import { isCode, NodeError, NotAuthorizedError } from './errors.js';
import type { Session } from './session.js';
import { parentOf } from './validation.js';

/** How often one container may vanish while its child is created: the server deletes containers that became empty. */
const MAX_REAPED = 16;

/**
 * Creates a container and its missing parents. Starts with the deepest, because usually only that one is missing.
 *
 * @param path with the chroot, which may be missing too
 * @param mode of the znode itself; its parents are containers
 * @param kept a znode that is persistent in any case, as are the directories directly below it: while it has a child,
 *   nobody can delete it
 * @param created gets the path of each container that this call has created, or may have created without a reply
 */
export async function ensureContainers(
  session: Session,
  path: string,
  mode: 'container' | 'persistent',
  kept: string | undefined,
  created?: Set<string>,
): Promise<void> {
  if (path === '/') return;
  const ownMode = path === kept || parentOf(path) === kept ? 'persistent' : mode;
  for (let reaped = 0; ; reaped++) {
    try {
      await session.createContainer(path, ownMode);
      if (ownMode === 'container') created?.add(path);
      return;
    } catch (error) {
      const isRefused = error instanceof NodeError || error instanceof NotAuthorizedError;
      if (!isRefused && ownMode === 'container') created?.add(path);
      const code = error instanceof NodeError ? error.code : undefined;
      if (code === 'NODE_EXISTS') return;
      // The server checks the permission to create before it looks whether the node exists.
      if (error instanceof NotAuthorizedError && (await session.request({ kind: 'exists', path })))
        return;
      if (code !== 'NO_NODE') throw error;
    }
    if (reaped === MAX_REAPED) throw new NodeError('NO_NODE', path, ErrorCode.noNode, 'create');
    await ensureContainers(session, parentOf(path), 'container', kept, created);
  }
}

/**
 * Deletes containers in which nothing will be created, because the server keeps a container for ever if it never had a
 * child. Another client that is about to use one creates it again, as after a container was reaped.
 *
 * @param created containers of one {@link ensureContainers}
 */
export async function deleteUnusedContainers(
  session: Session,
  created: ReadonlySet<string>,
): Promise<void> {
  for (const path of [...created].toSorted((a, b) => b.length - a.length)) {
    try {
      // The parent has had a child then, so the server deletes it.
      return await session.request({ kind: 'delete', path, version: -1 });
    } catch (error) {
      if (!isCode(error, 'NO_NODE')) throw error;
    }
  }
}
