import { NodeError, type NodeErrorCode } from './errors.js';
import type { LiveSession } from './live-session.js';
import type { Acl } from './types.js';
import type { ZkClient } from './zk-client.js';

/** How often one directory may vanish under our hands: each time somebody's last child left just then. */
const MAX_REAPED = 16;

/**
 * `mkdir -p` with containers, by full path since the chroot may be missing too. From the deepest
 * upwards, because usually all but the last are there.
 *
 * @param acl of each that it makes, in a session that can create with one
 */
export async function ensureContainers(
  session: LiveSession,
  path: string,
  acl: readonly Acl[] | undefined,
): Promise<void> {
  if (path === '/') return;
  for (let reaped = 0; ; reaped++) {
    if ((await refusalOf(session.createContainer(path, acl))) !== 'NO_NODE') return;
    if (reaped === MAX_REAPED) throw new NodeError('NO_NODE', path, -101, 'create');
    await ensureContainers(session, path.slice(0, path.lastIndexOf('/')) || '/', acl);
  }
}

/** Why the server made no container: there is one, or there is none above it. */
async function refusalOf(creation: Promise<unknown>): Promise<NodeErrorCode | undefined> {
  try {
    await creation;
    return undefined;
  } catch (error) {
    if (error instanceof NodeError && ['NODE_EXISTS', 'NO_NODE'].includes(error.code)) {
      return error.code;
    }
    throw error;
  }
}

/**
 * Makes directories with an ACL for a client whose transport cannot. It could replace the open ACL a
 * round trip later, but others of ours enter a directory as soon as it is there: nobody could tell
 * them from a stranger who put a node into it before. So a second session makes it, which is there as
 * long as anybody asks.
 */
export class DirectoryMaker {
  #client: ZkClient | undefined;
  #users = 0;

  constructor(
    /** A client, not connected yet, whose transport creates with an ACL. */
    private readonly make: () => ZkClient,
    stopping: AbortSignal,
  ) {
    stopping.addEventListener('abort', () => void this.#client?.close(), { once: true });
  }

  async ensureContainers(path: string): Promise<void> {
    const client = (this.#client ??= this.make());
    this.#users++;
    try {
      await client.connect();
      await client.ensureContainers(path);
    } finally {
      if (--this.#users === 0) {
        this.#client = undefined;
        await client.close();
      }
    }
  }
}
