import { abortable } from '../../client/sleep.js';
import { randomUUID } from 'node:crypto';
import {
  ConnectionError,
  NodeError,
  type Session,
  type Stat,
  type ZkClient,
} from '../../client/index.js';
import { retryRead, stateChange, assertSameSession } from './session-retry.js';

export interface Listing {
  readonly children: readonly string[];
  readonly stat: Stat;
}

/** A znode to create. Its name is a unique id followed by `suffix`. */
export interface NewNode {
  readonly parent: string;
  readonly suffix: string;
  readonly data: Uint8Array;
  readonly mode: 'ephemeral' | 'ephemeral-sequential';
  /** Called with the beginning of its name before it is created. */
  readonly onNamed?: (prefix: string) => void;
  /** Ends a wait for the connection. A znode that may exist by then is deleted in the background. */
  readonly signal?: AbortSignal;
}

/**
 * Creates a znode of a queue and lists the queue, in one round trip. The listing is undefined if it failed. The name
 * has a unique id, so that a create whose reply was lost is found again and not repeated (Curator's protected create;
 * CURATOR-45, CURATOR-79).
 */
export async function protectedCreate(
  client: ZkClient,
  session: Session,
  { parent, suffix, data, mode, onNamed, signal }: NewNode,
): Promise<{ name: string; listing: Listing | undefined }> {
  const id = `_c_${randomUUID()}-`;
  onNamed?.(id);
  for (;;) {
    const creating = session.create(`${parent}/${id}${suffix}`, data, { mode });
    // The caller lists again, and gets the error then.
    const listing = session.children(parent).catch(() => undefined);
    try {
      const created = await creating;
      return { name: created.slice(parent.length + 1), listing: await listing };
    } catch (error) {
      if (error instanceof NodeError && error.code === 'NO_NODE') {
        // The server may reap the container between two calls, any number of times (kazoo 563).
        signal?.throwIfAborted();
        await abortable(client.ensureContainers(parent), signal);
      } else if (error instanceof ConnectionError && error.maybeApplied) {
        const name = await recover(client, session, parent, id, signal);
        if (name !== undefined) return { name, listing: undefined };
      } else if (error instanceof ConnectionError) {
        await assertSameSession(client, session, signal);
      } else {
        throw error;
      }
    }
  }
}

/** Returns the name of a znode whose create was not answered; undefined if the server did not create it. */
async function recover(
  client: ZkClient,
  session: Session,
  parent: string,
  id: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  try {
    await assertSameSession(client, session, signal);
    return await find(client, session, parent, id, signal);
  } catch (error) {
    // The caller does not wait for the connection any longer, but the znode may exist (CURATOR-18, CURATOR-190).
    if (error instanceof ConnectionError || signal?.aborted) {
      void discardLater(client, session, parent, id);
    }
    throw error;
  }
}

/** Finds the znode with an id. It belongs to this session, because a create is never repeated in another one. */
async function find(
  client: ZkClient,
  session: Session,
  parent: string,
  id: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
  try {
    // The server of the new connection may lag behind the one that received the create.
    await retryRead(client, session, () => session.sync(parent), signal);
    const { children } = await retryRead(client, session, () => session.children(parent), signal);
    const [found, ...twins] = children.filter((name) => name.startsWith(id));
    for (const twin of twins) void session.discard(`${parent}/${twin}`);
    return found;
  } catch (error) {
    if (error instanceof NodeError && error.code === 'NO_NODE') return undefined;
    throw error;
  }
}

async function discardLater(
  client: ZkClient,
  session: Session,
  parent: string,
  id: string,
): Promise<void> {
  while (session.alive) {
    if (!session.connected) await stateChange(client);
    try {
      const name = await find(client, session, parent, id);
      if (name !== undefined) await session.discard(`${parent}/${name}`);
      return;
    } catch (error) {
      // After a lost connection it tries again. Without the session there is no znode to delete.
      if (error instanceof ConnectionError) continue;
      if (!session.alive) return;
      const message = `a znode ${parent}/${id}… may block its lock until the session ends: ${String(error)}`;
      return process.emitWarning(message, { code: 'ZK_ORPHAN_NODE' });
    }
  }
}
