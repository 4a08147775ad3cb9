import { ErrorCode } from '../protocol/index.js';
import { NodeError, NotAuthorizedError } from './errors.js';
import type { LiveSession } from './live-session.js';
import type { Acl } from './types.js';

/** How often one container may vanish while its child is created: the server deletes containers that became empty. */
const MAX_REAPED = 16;

/**
 * Creates a container and its missing parents. Starts with the deepest, because usually only that one is missing.
 *
 * @param path with the chroot, which may be missing too
 * @param acl of each container that is created; the session must have `aclOnCreate`
 */
export async function ensureContainers(
  session: LiveSession,
  path: string,
  acl: readonly Acl[] | undefined,
): Promise<void> {
  if (path === '/') return;
  for (let reaped = 0; ; reaped++) {
    try {
      return void (await session.createContainer(path, acl));
    } catch (error) {
      const code = error instanceof NodeError ? error.code : undefined;
      if (code === 'NODE_EXISTS') return;
      // The server checks the permission to create before it looks whether the node exists.
      if (error instanceof NotAuthorizedError && (await session.hasNode(path))) return;
      if (code !== 'NO_NODE') throw error;
    }
    if (reaped === MAX_REAPED) throw new NodeError('NO_NODE', path, ErrorCode.noNode, 'create');
    await ensureContainers(session, path.slice(0, path.lastIndexOf('/')) || '/', acl);
  }
}

/** The part of a ZkClient that creates containers. */
interface ContainerClient {
  connect(): Promise<void>;
  ensureContainers(path: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Creates containers with an ACL for a client whose transport cannot. That client could set the ACL a round
 * trip after the creation, but other processes use a container as soon as it exists: they could not
 * distinguish a node that a stranger created in it meanwhile. So a second client creates it, which is closed
 * when no call is pending.
 */
export class AclContainerCreator {
  #client: ContainerClient | undefined;
  #users = 0;

  constructor(
    /** Returns a client, not yet connected, whose transport supports an ACL on create. */
    private readonly newClient: () => ContainerClient,
    stopping: AbortSignal,
  ) {
    stopping.addEventListener('abort', () => void this.#client?.close(), { once: true });
  }

  async ensureContainers(path: string): Promise<void> {
    const client = (this.#client ??= this.newClient());
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
