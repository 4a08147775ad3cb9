import {
  BadOptionError,
  isCode,
  NodeError,
  NotAuthorizedError,
  type ZkClient,
} from '../client/index.js';
import {
  type Lock,
  Mutex,
  type Participant,
  ReadWriteLock,
  RecipeConflictError,
  Semaphore,
} from '../recipes/index.js';
import { childrenOf, hasEnded, readCandidates } from '../kernel/index.js';

/*
 * A scan walks the tree of znodes and recognizes locks and elections by the names of their children. With --namespace it
 * starts at the znodes that the namespace has for locks and elections, with --path at that znode, otherwise at the root.
 */

/** The greatest number of znodes that a scan lists, unless a namespace limits it. */
export const MAX_ZNODES = 20_000;
/** The greatest number of levels below the start. */
export const MAX_DEPTH = 12;
/** The number of requests that are sent together. */
const BATCH = 100;
/** Used for a semaphore if its znodes do not contain the number of its permits. */
const UNKNOWN_PERMITS = 2 ** 31 - 1;

/** A znode of a lock or an election, and what it says about its owner. */
export type LockParticipant = Pick<Participant, 'path' | 'session' | 'since'> &
  Partial<Omit<Participant, 'state'>> & {
    /** The id of the candidate. Only in elections. */
    readonly id?: string;
    /** True if it was a process of this machine that has ended: its znode stays until its session times out. */
    readonly processEnded?: true;
  };

/**
 * A lock, a semaphore or an election that has a holder or a waiter. `locks --json` and `leaders --json` print one per
 * line, with the dates in ISO 8601. A field that is unknown is absent.
 */
export interface LockState {
  /** The namespace, `''` for none. Absent if the parent of the znode is not `locks`, `semaphores` or `elections`. */
  readonly namespace?: string;
  /** The key of the lock or the name of the election. Without a namespace, the name of the znode. */
  readonly key: string;
  /** The znode. With a chroot in `--zookeeper`, the path is relative to it. */
  readonly path: string;
  readonly recipe: 'mutex' | 'read/write' | 'semaphore' | 'election';
  /** The holders, or the leader. A holder with `mayLinger` holds the lock or lingers. */
  readonly holders: readonly LockParticipant[];
  /** In the order of the queue. */
  readonly waiters: readonly LockParticipant[];
  /** Why the holders are unknown, for example because two recipes use one path. */
  readonly problem?: string;
}

/** What a scan looks for, and where. */
export interface ScanOptions {
  readonly kinds: readonly ('lock' | 'election')[];
  /** Whether only the namespace of the client is scanned. */
  readonly inNamespace: boolean;
  /** The only znode that is scanned, with those below. */
  readonly path?: string;
}

/** Lists the children of a znode. Rejects with NodeError if it does not exist. */
export type ListChildren = (path: string) => Promise<readonly string[]>;

export interface Scan {
  readonly states: readonly LockState[];
  /** The znodes where the scan started. */
  readonly roots: readonly string[];
  /** Those of the roots that do not exist. */
  readonly missing: readonly string[];
  /** The znodes whose ACL denies read access. */
  readonly unreadable: readonly string[];
  /** Whether there are more znodes than the scan lists. */
  readonly truncated: boolean;
}

/** Returns the znodes where a scan starts. */
function rootsOf({ namespace }: ZkClient, options: ScanOptions): string[] {
  const { kinds, inNamespace, path } = options;
  if (path !== undefined) return [path];
  if (!inNamespace) return ['/'];
  const names = kinds.flatMap((kind) =>
    kind === 'lock' ? ['locks', 'semaphores'] : ['elections'],
  );
  return names.map((name) => `${namespace}/${name}`);
}

/** Reads the locks and elections that have holders or waiters, in the order of their paths. */
export async function scan(
  client: ZkClient,
  options: ScanOptions,
  listChildren: ListChildren = async (path) => (await client.children(path)).children,
): Promise<Scan> {
  // The server may be behind the others.
  await client.sync('/');
  const roots = rootsOf(client, options);
  const limit = options.inNamespace ? Infinity : MAX_ZNODES;
  const { listings, unreadable, truncated } = await walk(listChildren, roots, limit);
  const found = [...listings].flatMap(([path, children]) => {
    const recipe = recipeOf(path, children, listings, options);
    return recipe ? [{ path, recipe }] : [];
  });
  const semaphores = new Set(
    found.filter((each) => each.recipe === 'semaphore').map(({ path }) => path),
  );
  const wanted = found
    // The queue of a semaphore looks like a mutex.
    .filter(({ path }) => !(path.endsWith('/locks') && semaphores.has(parentOf(path))))
    .filter(({ recipe }) => options.kinds.includes(recipe === 'election' ? 'election' : 'lock'))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
  const states = await inBatches(wanted, (each) => readState(client, each, unreadable));
  return {
    states: states.filter((each) => each !== undefined),
    roots,
    missing: roots.filter((root) => !listings.has(root) && !unreadable.includes(root)),
    unreadable,
    truncated,
  };
}

/** Lists the znodes below `roots`, level by level. Leaves out the znodes of locks and those of ZooKeeper itself. */
async function walk(listChildren: ListChildren, roots: readonly string[], limit: number) {
  const listings = new Map<string, readonly string[]>();
  const unreadable: string[] = [];
  let count = 0;
  let level = [...roots];
  for (let depth = 0; depth <= MAX_DEPTH && level.length > 0 && count < limit; depth++) {
    const batch = level.slice(0, limit - count);
    count += batch.length;
    level = level.slice(batch.length);
    const children = await inBatches(batch, (path) => listOrSkip(listChildren, path, unreadable));
    for (const [index, names] of children.entries()) {
      const path = batch[index]!;
      if (!names) continue;
      listings.set(path, names);
      if (path === '/zookeeper' && names.includes('quota')) continue;
      for (const name of names) {
        // A key may look like the znode of a participant.
        if (!isParticipant(name) || isRecipeParent(baseName(path))) {
          level.push(path === '/' ? `/${name}` : `${path}/${name}`);
        }
      }
    }
  }
  return { listings, unreadable, truncated: level.length > 0 };
}

/** Resolves to undefined for a znode that has vanished or whose ACL denies read access. */
async function listOrSkip(listChildren: ListChildren, path: string, unreadable: string[]) {
  try {
    return await listChildren(path);
  } catch (error) {
    if (error instanceof NotAuthorizedError) unreadable.push(path);
    else if (!isCode(error, 'NO_NODE')) throw error;
    return undefined;
  }
}

async function readState(
  client: ZkClient,
  { path, recipe }: Pick<LockState, 'path' | 'recipe'>,
  unreadable: string[],
): Promise<LockState | undefined> {
  const seen = { ...locationOf(path), path, recipe };
  try {
    const members = await readParticipants(client, path, recipe);
    // A znode without a session is a free lock whose key looks like a participant.
    const [holders, waiters] = members.map((each) => each.filter(({ session }) => session !== '0'));
    return holders.length + waiters.length > 0 ? { ...seen, holders, waiters } : undefined;
  } catch (error) {
    if (error instanceof NotAuthorizedError) unreadable.push(path);
    // Another client may have given a znode any name, and any number of permits.
    else if (!(error instanceof RecipeConflictError || error instanceof BadOptionError))
      throw error;
    return { ...seen, holders: [], waiters: [], problem: error.message };
  }
}

async function readParticipants(
  client: ZkClient,
  path: string,
  recipe: LockState['recipe'],
): Promise<[holders: LockParticipant[], waiters: LockParticipant[]]> {
  if (recipe === 'election') {
    const candidates = await readCandidates(client, path);
    const members = candidates.map(({ id, path, since, session }) => ({
      id,
      path,
      since,
      session,
    }));
    return [members.slice(0, 1), members.slice(1)];
  }
  const participants = await (await lockAt(client, path, recipe)).participants();
  const holders: LockParticipant[] = [];
  const waiters: LockParticipant[] = [];
  for (const { state, ...member } of participants) {
    const seen = hasEnded(member) ? { ...member, processEnded: true as const } : member;
    (state === 'waiting' ? waiters : holders).push(seen);
  }
  return [holders, waiters];
}

async function lockAt(
  client: ZkClient,
  path: string,
  recipe: 'mutex' | 'read/write' | 'semaphore',
): Promise<Lock> {
  if (recipe === 'mutex') return new Mutex(client, path);
  if (recipe === 'read/write') return new ReadWriteLock(client, path).read;
  return new Semaphore(client, path, { permits: await readPermits(client, path) });
}

/** Reads the number of permits of a semaphore from the first of its permits that contains it. */
async function readPermits(client: ZkClient, path: string): Promise<number> {
  const [first] = await childrenOf(client, `${path}/leases`);
  if (first === undefined) return UNKNOWN_PERMITS;
  try {
    const { data } = await client.get(`${path}/leases/${first}`);
    const permits = (JSON.parse(data.toString()) as { permits?: number } | null)?.permits;
    return Number.isInteger(permits) && permits! > 0 ? permits! : UNKNOWN_PERMITS;
  } catch (error) {
    // The znode has vanished, or belongs to another library.
    if (error instanceof NodeError || error instanceof SyntaxError) return UNKNOWN_PERMITS;
    throw error;
  }
}

const READ_OR_WRITE = /__(?:READ|WRIT)__\d{10}$/;
const CANDIDATE = /(?:^|-)latch-\d{10}$/;
/** The last part is kazoo's, whose locks do not exclude ours. */
const LOCK = /(?:(?:^|-)lock-|__r?lock__)\d{10}$/;
const PERMIT = /(?:^|-)lease-\d{10}$/;

/** Whether a znode holds a lock or waits for it. Such a znode is ephemeral and has no children. */
function isParticipant(name: string): boolean {
  return [READ_OR_WRITE, CANDIDATE, LOCK, PERMIT].some((pattern) => pattern.test(name));
}

/** Recognizes a lock or an election by the names of its children, a semaphore by theirs. */
function recipeOf(
  path: string,
  children: readonly string[],
  listings: ReadonlyMap<string, readonly string[]>,
  { kinds, path: given }: ScanOptions,
): LockState['recipe'] | undefined {
  // The root cannot be a lock.
  if (path === '/') return undefined;
  // A participant is ephemeral and has no children. A lock whose key looks like a participant has some.
  const leaves = children.filter((name) => !listings.get(`${path}/${name}`)?.length);
  const has = (pattern: RegExp, names: readonly string[] = leaves) =>
    names.some((name) => pattern.test(name));
  const parent = baseName(parentOf(path));
  if (has(READ_OR_WRITE)) return 'read/write';
  if (has(CANDIDATE)) return 'election';
  if (has(LOCK)) {
    // The candidates of a LeaderSelector have the names of a mutex.
    const isElection = parent === 'elections' || (path === given && !kinds.includes('lock'));
    return isElection ? 'election' : 'mutex';
  }
  if (has(PERMIT, listings.get(`${path}/leases`) ?? [])) return 'semaphore';
  // Elsewhere, `locks` may be the parent of the locks of a namespace.
  const isKey = parent === 'locks' || parent === 'semaphores';
  if (isKey && has(LOCK, listings.get(`${path}/locks`) ?? [])) return 'semaphore';
  return undefined;
}

/** Returns the namespace and the key that a path was made of. */
function locationOf(path: string): Pick<LockState, 'namespace' | 'key'> {
  const [name, parent] = [baseName(path), parentOf(path)];
  if (!isRecipeParent(baseName(parent))) return { key: name };
  return { namespace: parentOf(parent), key: decode(name) };
}

/** Whether a namespace has a znode of this name. Its children are locks or elections. */
function isRecipeParent(name: string): boolean {
  return ['locks', 'semaphores', 'elections'].includes(name);
}

function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Returns the path of the parent, `''` for the root. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

async function inBatches<T, R>(items: readonly T[], fn: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let start = 0; start < items.length; start += BATCH) {
    results.push(...(await Promise.all(items.slice(start, start + BATCH).map(fn))));
  }
  return results;
}
