import { randomUUID } from 'node:crypto';
import { isCode } from '../client/errors.js';
import {
  ConnectionError,
  type Session,
  SessionExpiredError,
  ShuttingDownError,
  type Stat,
  type ZkClient,
} from '../client/index.js';
import { parentOf } from '../client/validation.js';
import { abortable } from '../client/sleep.js';
import { createContainers, deleteContainers } from '../client/zk-client.js';
import { assertSameSession, stateChange } from './session-retry.js';

/*
 * The znodes that this process creates for itself:
 *
 *   - A create whose reply was lost is repeated only in its session, and only after a search for its znode.
 *   - Missing parents are created as containers. The server may reap a container before its first child is created, any
 *     number of times (kazoo 563).
 *   - When the caller gives up, a znode that may exist is deleted in the background (CURATOR-18, CURATOR-190), and so is
 *     a container that never had a child.
 */

/** What {@link repeatCreate} needs to know of the znode. */
interface OwnNode {
  readonly parent: string;
  /** Ends a wait for the connection. */
  readonly signal?: AbortSignal | undefined;
  /** Deletes the znode. Called when the call fails and the znode may exist. */
  readonly undo?: () => void;
}

/**
 * Repeats a create in its session until a server has answered.
 *
 * @param attempt sends the create. Resolves to undefined if it must be sent again. Its argument tells whether an earlier
 *   one may have been applied
 * @throws SessionExpiredError if the session ended; the reason of `signal`; what the server refuses
 */
export async function repeatCreate<T>(
  client: ZkClient,
  session: Session,
  { parent, signal, undo }: OwnNode,
  attempt: (maybeCreated: boolean) => Promise<T | undefined>,
): Promise<T> {
  const containers = new ParentContainers(client, parent);
  let maybeCreated = false;
  try {
    for (;;) {
      try {
        const result = await attempt(maybeCreated);
        if (result !== undefined) return result;
      } catch (error) {
        if (isCode(error, 'NO_NODE')) {
          signal?.throwIfAborted();
          await containers.ensure(signal);
        } else if (error instanceof ConnectionError) {
          maybeCreated ||= error.maybeApplied;
          await assertSameSession(client, session, signal);
        } else {
          throw error;
        }
      }
    }
  } catch (error) {
    if (maybeCreated) undo?.();
    containers.abandon();
    throw error;
  }
}

/**
 * Deletes an ephemeral znode of `session`, which may exist. Resolves when it is deleted, or is left to the background
 * because the connection is lost. A znode that belongs to another session is left alone. A delete whose reply is
 * lost is repeated by its path, so it can hit a znode that another session creates there meanwhile.
 *
 * @param path how warnings name the znode
 * @param locate returns the path of the znode; undefined if it does not exist. Default: `path`
 */
export async function deleteOwn(
  client: ZkClient,
  session: Session,
  path: string,
  locate: () => Promise<string | undefined> | string = () => path,
): Promise<void> {
  try {
    const found = await locate();
    if (found === undefined) return;
    // This server may lag behind the one that applied a create whose reply was lost.
    await session.sync(found);
    const stat = await session.exists(found);
    if (stat?.ephemeralOwner === session.id) await session.guaranteedDelete(found);
  } catch (error) {
    // The znode is gone, or is deleted with its session.
    if (isCode(error, 'NO_NODE') || error instanceof SessionExpiredError) return;
    if (error instanceof ShuttingDownError) return;
    if (!(error instanceof ConnectionError)) throw error;
    const reconnection = session.connected ? Promise.resolve() : stateChange(client);
    void reconnection
      .then(() => deleteOwn(client, session, path, locate))
      .catch(warnOfOrphan(path));
  }
}

const warnOfOrphan = (path: string) => (error: unknown) => {
  const message = `znode ${path} may block its lock until the session ends: ${String(error)}`;
  process.emitWarning(message, { code: 'ZK_ORPHAN_NODE' });
};

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
  /** Ends a wait for the connection. */
  readonly signal?: AbortSignal;
  /** The first attempt, if it was made already. */
  readonly sent?: SentCreate | undefined;
  /** Lists the parent behind the create. Default: at once. */
  readonly list?: (session: Session, parent: string) => Promise<Listing>;
}

/**
 * Creates a znode of a queue and lists the queue, in one round trip. The listing is undefined if it failed, or came before
 * the znode. The name has a unique id, by which the znode is found after a lost reply (Curator's protected create;
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

const listChildren = (session: Session, parent: string) => session.children(parent);

/** As {@link protectedCreate} for several znodes, all or none: after a failure, those that exist are deleted. */
export async function protectedCreates(
  client: ZkClient,
  session: Session,
  node: NewNode,
  count: number,
): Promise<{ names: string[]; listing: Listing | undefined }> {
  const { parent, sent, onNamed, list = listChildren } = node;
  const ids = sent ? [sent.id] : Array.from({ length: count }, uniqueId);
  for (const id of ids) onNamed?.(id);
  let repeated = false;
  const onRepeat = () => (repeated = true);
  const creates = ids.map((id) => createUnique(client, session, node, id, onRepeat));
  // The caller lists again, and gets the error then.
  const listing = sent ? sent.listing : list(session, parent).catch(() => undefined);
  const results = await Promise.allSettled(creates);
  const names = results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const failed = results.find(({ status }) => status === 'rejected');
  if (!failed) return { names, listing: repeated ? undefined : await listing };
  for (const name of names) void session.guaranteedDelete(`${parent}/${name}`);
  throw (failed as PromiseRejectedResult).reason;
}

/** Resolves to the name of the znode. */
function createUnique(
  client: ZkClient,
  session: Session,
  { parent, suffix, data, mode, signal, sent }: NewNode,
  id: string,
  onRepeat: () => void,
): Promise<string> {
  const path = `${parent}/${id}${suffix}`;
  let first = sent?.created;
  const find = () => findUnique(session, `${parent}/${id}`);
  const undo = () => void deleteOwn(client, session, path, find).catch(warnOfOrphan(path));
  let attempts = 0;
  return repeatCreate(client, session, { parent, signal, undo }, async (maybeCreated) => {
    if (++attempts > 1) onRepeat();
    const found = maybeCreated ? await find() : undefined;
    const created = found ?? first ?? session.create(path, data, { mode });
    first = undefined;
    return (await created).slice(parent.length + 1);
  });
}

/**
 * Returns the znode of this session whose path begins with a unique `prefix`. A create is never repeated in another
 * session.
 */
export async function findUnique(session: Session, prefix: string): Promise<string | undefined> {
  const parent = parentOf(prefix);
  // This server may lag behind the one that received the create.
  await session.sync(parent);
  const { children } = await session.children(parent);
  const directory = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  const paths = children.map((name) => directory + name).filter((path) => path.startsWith(prefix));
  const [found, ...others] = paths;
  for (const other of others) void session.guaranteedDelete(other);
  return found;
}

/** The missing parents of a znode that is about to be created. */
class ParentContainers {
  /** Full paths of the containers that this object has created, or may have. */
  private readonly created = new Set<string>();
  private ensured: Promise<void> | undefined;

  constructor(
    private readonly client: ZkClient,
    private readonly parent: string,
  ) {}

  /** Creates the parents that are missing. */
  ensure(signal: AbortSignal | undefined): Promise<void> {
    this.ensured = createContainers(this.client, this.parent, this.created);
    return abortable(this.ensured, signal);
  }

  /** Deletes a container that may never have had a child, in the background: the server would keep it for ever. */
  abandon(): void {
    if (this.ensured) void this.deleteUnused();
  }

  private async deleteUnused(): Promise<void> {
    // A container may still be on its way when the wait for it has ended.
    await this.ensured?.catch(() => {});
    while (this.created.size > 0) {
      try {
        return await deleteContainers(this.client, this.created);
      } catch (error) {
        // NOT_EMPTY: another client uses it. After any other answer an empty znode is left, which blocks nobody.
        if (!(error instanceof ConnectionError)) return;
        if (!this.client.connected) await stateChange(this.client);
      }
    }
  }
}
