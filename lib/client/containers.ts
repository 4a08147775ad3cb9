import { NodeError, type NodeErrorCode } from './errors.js';
import type { LiveSession } from './live-session.js';
import type { Acl } from './types.js';

/** How often one directory may vanish under our hands: each time somebody's last child left just then. */
const MAX_REAPED = 16;

/**
 * `mkdir -p` with containers, by full path since the chroot may be missing too. From the deepest
 * upwards, because usually all but the last are there.
 *
 * @param unsure full paths whose create was sent without an answer; kept by the caller over its retries,
 *   so that a directory that was made after all does not go without its ACL
 */
export async function ensureContainers(
  session: LiveSession,
  path: string,
  acl: readonly Acl[] | undefined,
  unsure: Set<string>,
): Promise<void> {
  if (path === '/') return;
  for (let reaped = 0; ; reaped++) {
    const outcome = await make(session, path, acl, unsure);
    if (outcome === 'there') return;
    if (outcome === 'made') {
      if (!acl || session.createsWithAcl) return;
      // Version 0: an ACL that somebody set since then stays.
      const refusal = await refusalOf(session.setContainerAcl(path, acl, 0));
      if (refusal?.code !== 'NO_NODE') return;
    }
    // Its parent is missing, or it was reaped before it had its ACL.
    if (reaped === MAX_REAPED) throw new NodeError('NO_NODE', path, -101, 'create');
    await ensureContainers(session, path.slice(0, path.lastIndexOf('/')) || '/', acl, unsure);
  }
}

async function make(
  session: LiveSession,
  path: string,
  acl: readonly Acl[] | undefined,
  unsure: Set<string>,
): Promise<'made' | 'there' | 'no parent'> {
  const wasUnsure = unsure.delete(path);
  unsure.add(path);
  const refusal = await refusalOf(session.createContainer(path, acl), ['NODE_EXISTS', 'NO_NODE']);
  unsure.delete(path);
  if (!refusal) return 'made';
  if (refusal.code === 'NO_NODE') return 'no parent';
  return wasUnsure ? 'made' : 'there';
}

/** What the server said no with, where that is one of the answers asked for. */
async function refusalOf(
  operation: Promise<unknown>,
  answers: readonly NodeErrorCode[] = ['NO_NODE', 'BAD_VERSION'],
): Promise<NodeError | undefined> {
  try {
    await operation;
    return undefined;
  } catch (error) {
    if (error instanceof NodeError && answers.includes(error.code)) return error;
    throw error;
  }
}
