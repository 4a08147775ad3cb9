import { randomUUID } from 'node:crypto';
import { ConnectionError, type Session, type Stat, type ZkClient } from '../client/index.js';
import { isCode } from '../client/errors.js';
import { ParentContainers } from './parent-containers.js';
import { retryRead, stateChange, assertSameSession } from './session-retry.js';

export interface Listing {
  readonly children: readonly string[];
  readonly stat: Stat;
}

/** A create that was sent, with the listing behind it. */
export interface SentCreate {
  readonly session: Session;
  /** The beginning of the name. */
  readonly id: string;
  /** Resolves to the path. */
  readonly created: Promise<string>;
  readonly listing: Listing | undefined;
}

/** Returns the beginning of the name of a znode, which no other znode has. */
export function uniqueId(): string {
  return `_c_${randomUUID()}-`;
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
  /** The first attempt, if it was made already. */
  readonly sent?: SentCreate | undefined;
}

/**
 * Creates a znode of a queue and lists the queue, in one round trip. The listing is undefined if it failed. The name
 * has a unique id, so that a create whose reply was lost is found again and not repeated (Curator's protected create;
 * CURATOR-45, CURATOR-79).
 */
export async function protectedCreate(
  client: ZkClient,
  session: Session,
  node: NewNode,
): Promise<{ name: string; listing: Listing | undefined }> {
  const { names, listing } = await protectedCreates(client, session, node, 1);
  return { name: names[0]!, listing };
}

/** As {@link protectedCreate} for several znodes, all or none: after a failure, those that exist are deleted. */
export async function protectedCreates(
  client: ZkClient,
  session: Session,
  { parent, suffix, data, mode, onNamed, signal, sent }: NewNode,
  count: number,
): Promise<{ names: string[]; listing: Listing | undefined }> {
  const ids = sent ? [sent.id] : Array.from({ length: count }, uniqueId);
  for (const id of ids) onNamed?.(id);
  let first = sent;
  /** The names of the znodes that are known to exist, by id. */
  const names = new Map<string, string>();
  /** The ids of the creates of this round that may have been applied without a reply. */
  let lost: string[] = [];
  let containers: ParentContainers | undefined;
  try {
    for (; ; lost = []) {
      let [unsent, noParent, failure]: [boolean, boolean, unknown] = [false, false, undefined];
      const create = async (id: string) => {
        const path = `${parent}/${id}${suffix}`;
        try {
          const created = first ? first.created : session.create(path, data, { mode });
          names.set(id, (await created).slice(parent.length + 1));
        } catch (error) {
          if (error instanceof ConnectionError && error.maybeApplied) lost.push(id);
          else if (error instanceof ConnectionError) unsent = true;
          else if (isCode(error, 'NO_NODE')) noParent = true;
          else failure ??= error;
        }
      };
      const creates = ids.filter((id) => !names.has(id)).map(create);
      // The caller lists again, and gets the error then.
      const listing = first ? first.listing : session.children(parent).catch(() => undefined);
      first = undefined;
      await Promise.all(creates);
      if (names.size === count) {
        return { names: ids.map((id) => names.get(id)!), listing: await listing };
      }
      if (failure) throw failure;
      if (unsent || lost.length > 0) await assertSameSession(client, session, signal);
      if (lost.length > 0) {
        const found = await find(client, session, parent, lost, signal);
        for (const [id, name] of found) names.set(id, name);
      }
      if (noParent) {
        // The server may reap the container between two calls, any number of times (kazoo 563).
        signal?.throwIfAborted();
        await (containers ??= new ParentContainers(client, parent)).ensure(signal);
      }
    }
  } catch (error) {
    // No caller waits for the connection any more, but the znodes may exist (CURATOR-18, CURATOR-190).
    if (lost.length > 0) void deleteLater(client, session, parent, lost);
    for (const name of names.values()) void session.guaranteedDelete(`${parent}/${name}`);
    containers?.abandon();
    throw error;
  }
}

/** Finds the znodes with these ids. They belong to this session, because a create is never repeated in another one. */
async function find(
  client: ZkClient,
  session: Session,
  parent: string,
  ids: readonly string[],
  signal?: AbortSignal,
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  try {
    // The server of the new connection may lag behind the one that received the creates.
    await retryRead(client, session, () => session.sync(parent), signal);
    const { children } = await retryRead(client, session, () => session.children(parent), signal);
    const wanted = new Set(ids);
    for (const name of children) {
      const id = name.slice(0, ids[0]!.length);
      if (!wanted.has(id)) continue;
      if (found.has(id)) void session.guaranteedDelete(`${parent}/${name}`);
      else found.set(id, name);
    }
  } catch (error) {
    if (!isCode(error, 'NO_NODE')) throw error;
  }
  return found;
}

async function deleteLater(
  client: ZkClient,
  session: Session,
  parent: string,
  ids: readonly string[],
): Promise<void> {
  while (session.alive) {
    if (!session.connected) await stateChange(client);
    try {
      const found = await find(client, session, parent, ids);
      for (const name of found.values()) void session.guaranteedDelete(`${parent}/${name}`);
      return;
    } catch (error) {
      // After a lost connection it tries again. Without the session there is no znode to delete.
      if (error instanceof ConnectionError) continue;
      if (!session.alive) return;
      const message = `znodes ${parent}/${ids[0]}… may block their lock until the session ends: ${String(error)}`;
      return process.emitWarning(message, { code: 'ZK_ORPHAN_NODE' });
    }
  }
}
