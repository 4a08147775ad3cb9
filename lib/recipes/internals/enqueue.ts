import { randomUUID } from 'node:crypto';
import {
  ConnectionError,
  NodeError,
  type Session,
  type Stat,
  type ZkClient,
} from '../../client/index.js';
import { abortable } from './wait.js';
import { readWithin, stateChange, stillIn } from './session-retry.js';

export interface Listing {
  readonly children: readonly string[];
  readonly stat: Stat;
}

/** The node to make: its name is an id of its own and then `suffix`. */
export interface NewNode {
  readonly parent: string;
  readonly suffix: string;
  readonly data: Uint8Array;
  readonly mode: 'ephemeral' | 'ephemeral-sequential';
  /** Called, before it is made, with what its name begins with. */
  readonly onNamed?: (prefix: string) => void;
  /** Ends a wait for the connection. What may have been made by then is deleted in the background. */
  readonly signal?: AbortSignal;
}

/**
 * Creates a node of a queue and lists the queue in one flight; the listing is missing
 * where only the node came back. The name carries an id of its own, so that a create whose answer was
 * lost is found again instead of made twice (Curator's protected create; CURATOR-45, 79).
 */
export async function enqueue(
  client: ZkClient,
  session: Session,
  { parent, suffix, data, mode, onNamed, signal }: NewNode,
): Promise<{ name: string; listing: Listing | undefined }> {
  const id = `_c_${randomUUID()}-`;
  onNamed?.(id);
  for (;;) {
    const creating = session.create(`${parent}/${id}${suffix}`, data, { mode });
    const listing = session.children(parent).catch(() => undefined);
    try {
      const created = await creating;
      return { name: created.slice(parent.length + 1), listing: await listing };
    } catch (error) {
      if (error instanceof NodeError && error.code === 'NO_NODE') {
        // The container may be reaped between any two calls (kazoo 563): as often as it takes.
        signal?.throwIfAborted();
        await abortable(client.ensureContainers(parent), signal);
      } else if (error instanceof ConnectionError && error.maybeApplied) {
        const name = await recover(client, session, parent, id, signal);
        if (name !== undefined) return { name, listing: undefined };
      } else if (error instanceof ConnectionError) {
        await stillIn(client, session, signal);
      } else {
        throw error;
      }
    }
  }
}

/** The node of a create whose answer was lost, if the server made it. */
async function recover(
  client: ZkClient,
  session: Session,
  parent: string,
  id: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  try {
    await stillIn(client, session, signal);
    return await find(client, session, parent, id, signal);
  } catch (error) {
    // Our caller waits no longer for the connection, but the node may be there (CURATOR-18, 190).
    if (error instanceof ConnectionError || signal?.aborted) {
      void discardLater(client, session, parent, id);
    }
    throw error;
  }
}

/**
 * The id was made in this session and a create never crosses sessions: a node that bears it is ours.
 */
async function find(
  client: ZkClient,
  session: Session,
  parent: string,
  id: string,
  signal?: AbortSignal,
): Promise<string | undefined> {
  try {
    // The server of the new connection may lag behind the one that took the create.
    await readWithin(client, session, () => session.sync(parent), signal);
    const { children } = await readWithin(client, session, () => session.children(parent), signal);
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
      // Without a connection there is a next time; any other answer means that the session is over.
      if (!(error instanceof ConnectionError)) return;
    }
  }
}
