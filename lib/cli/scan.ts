import type { ZkClient } from '../client/index.js';
import {
  RecipeConflictError,
  type LeaderParticipant,
  type Lock,
  Mutex,
  type Participant,
  ReadWriteLock,
  Semaphore,
} from '../recipes/index.js';
import { childrenOf, readCandidates } from '../recipes/internals/participants.js';

/** Used for each semaphore, because its znodes do not contain its number of permits. */
const PERMITS = 2 ** 31 - 1;

export interface LockSnapshot {
  readonly key: string;
  readonly path: string;
  readonly recipe: 'mutex' | 'read/write' | 'semaphore';
  readonly participants: readonly Participant[];
  /** Why the participants are unknown, for example because two recipes use one path. */
  readonly problem?: string;
}

export interface ElectionSnapshot {
  readonly election: string;
  readonly path: string;
  readonly participants: readonly LeaderParticipant[];
}

/**
 * Resolves to the locks and semaphores that have holders or waiters.
 *
 * @param path a lock or a parent of locks; default: the parents of the namespace
 */
export async function scanLocks(client: ZkClient, path?: string): Promise<LockSnapshot[]> {
  const parents = path
    ? [path]
    : ['locks', 'semaphores'].map((name) => `${client.namespace}/${name}`);
  const paths = (await Promise.all(parents.map((each) => lockPaths(client, each)))).flat();
  const seen = await Promise.all(paths.map((each) => lockSnapshot(client, each)));
  return seen.filter((lock) => lock !== undefined);
}

async function lockSnapshot(client: ZkClient, path: string): Promise<LockSnapshot | undefined> {
  const found = await lockAt(client, path);
  if (!found) return undefined;
  const seen = { key: keyOf(path), path, recipe: found.recipe };
  try {
    const participants = await found.lock.participants();
    return participants.length > 0 ? { ...seen, participants } : undefined;
  } catch (error) {
    if (!(error instanceof RecipeConflictError)) throw error;
    return { ...seen, participants: [], problem: error.message };
  }
}

/**
 * Resolves to the elections that have participants.
 *
 * @param path an election or the parent of elections; default: the parent of the namespace
 */
export async function scanElections(client: ZkClient, path?: string): Promise<ElectionSnapshot[]> {
  const parent = path ?? `${client.namespace}/elections`;
  const children = await childrenOf(client, parent);
  const paths = children.some((name) => /-(?:latch|lock)-\d+$/.test(name))
    ? [parent]
    : children.toSorted().map((name) => `${parent}/${name}`);
  const seen = await Promise.all(
    paths.map(async (each) => ({
      election: keyOf(each),
      path: each,
      participants: await readCandidates(client, each),
    })),
  );
  return seen.filter(({ participants }) => participants.length > 0);
}

/** Resolves to the lock at a path, recognized by its children; undefined if none of them belongs to a lock. */
export async function lockAt(
  client: ZkClient,
  path: string,
): Promise<{ recipe: LockSnapshot['recipe']; lock: Lock } | undefined> {
  const recipe = recipeOf(await childrenOf(client, path));
  switch (recipe) {
    case 'mutex':
      return { recipe, lock: new Mutex(client, path) };
    case 'read/write':
      return { recipe, lock: new ReadWriteLock(client, path).read };
    case 'semaphore':
      return { recipe, lock: new Semaphore(client, path, { permits: PERMITS }) };
    case undefined:
      return undefined;
  }
}

/** Resolves to `path` if it is a lock, else with its children. */
async function lockPaths(client: ZkClient, path: string): Promise<string[]> {
  const children = await childrenOf(client, path);
  return recipeOf(children) ? [path] : children.toSorted().map((name) => `${path}/${name}`);
}

function recipeOf(children: readonly string[]): LockSnapshot['recipe'] | undefined {
  if (children.some((name) => /__(?:READ|WRIT)__\d+$/.test(name))) return 'read/write';
  if (children.some((name) => /-lock-\d+$/.test(name))) return 'mutex';
  if (children.includes('leases') || children.includes('locks')) return 'semaphore';
  return undefined;
}

/** Returns the key or the name of the election that a path was made of. */
function keyOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
