import { parentOf } from './paths.js';
import { ErrorCode } from '../protocol/index.js';
import { NodeError, NotAuthorizedError } from './errors.js';
import type { LiveSession } from './live-session.js';
import { BOOLEAN } from './option-rules.js';
import { checkOptions } from './validation.js';

/** How often one container may vanish while its child is created: the server deletes containers that became empty. */
const MAX_REAPED = 16;

/**
 * Creates a container and its missing parents. Starts with the deepest, because usually only that one is missing.
 *
 * @param path with the chroot, which may be missing too
 * @param mode of the znode itself; its parents are containers
 * @param kept a znode that is persistent in any case, as are the parents directly below it: while it has a child, nobody
 *   can delete it
 */
export async function ensureContainers(
  session: LiveSession,
  path: string,
  mode: 'container' | 'persistent',
  kept: string | undefined,
): Promise<void> {
  if (path === '/') return;
  for (let reaped = 0; ; reaped++) {
    try {
      return void (await session.createContainer(path, path === kept ? 'persistent' : mode));
    } catch (error) {
      const code = error instanceof NodeError ? error.code : undefined;
      if (code === 'NODE_EXISTS') return;
      // The server checks the permission to create before it looks whether the node exists.
      if (error instanceof NotAuthorizedError && (await session.hasNode(path))) return;
      if (code !== 'NO_NODE') throw error;
    }
    if (reaped === MAX_REAPED) throw new NodeError('NO_NODE', path, ErrorCode.noNode, 'create');
    const parent = parentOf(path);
    const parentMode = parentOf(parent) === kept ? 'persistent' : 'container';
    await ensureContainers(session, parent, parentMode, kept);
  }
}

/** Checks the options, and returns the mode of the znode itself. */
export function leafMode(options: {
  persistent?: boolean | undefined;
}): 'container' | 'persistent' {
  const { persistent = false } = checkOptions(options, { persistent: BOOLEAN });
  return persistent ? 'persistent' : 'container';
}
