import type { ZkClient } from '../client/index.js';
import {
  ForeignNodeError,
  type LeaderParticipant,
  type Lock,
  Mutex,
  type Participant,
  ReadWriteLock,
  Semaphore,
} from '../recipes/index.js';
import { readCandidates } from '../recipes/internals/participants.js';
import { childrenOf } from '../recipes/internals/participants.js';

/** Stands for the unknown number of permits: the znodes of a semaphore do not contain it. */
const PERMITS = 2 ** 31 - 1;

export interface LockSnapshot {
  readonly key: string;
  readonly path: string;
  readonly recipe: 'mutex' | 'read/write' | 'semaphore';
  readonly participants: readonly Participant[];
  /** Why the participants are unknown, such as two recipes at one znode. */
  readonly trouble?: string;
}

export interface ElectionSnapshot {
  readonly election: string;
  readonly path: string;
  readonly participants: readonly LeaderParticipant[];
}

/** Resolves with the locks and semaphores that have holders or waiters. @param path replaces the namespace's directories */
export async function scanLocks(client: ZkClient, path?: string): Promise<LockSnapshot[]> {
  const directories = path ? [path] : ['locks', 'semaphores'].map((name) => below(client, name));
  const paths = (await Promise.all(directories.map((each) => lockPaths(client, each)))).flat();
  const seen = await Promise.all(paths.map((each) => lockSnapshot(client, each)));
  return seen.filter((lock) => lock !== undefined);
}

async function lockSnapshot(client: ZkClient, path: string): Promise<LockSnapshot | undefined> {
  const found = await lockAt(client, path);
  if (!found) return undefined;
  const seen = { key: nameOf(path), path, recipe: found.recipe };
  try {
    const participants = await found.lock.participants();
    return participants.length > 0 ? { ...seen, participants } : undefined;
  } catch (error) {
    if (!(error instanceof ForeignNodeError)) throw error;
    return { ...seen, participants: [], trouble: error.message };
  }
}

/** Resolves with the elections that have participants. @param path replaces the namespace's directory */
export async function scanElections(client: ZkClient, path?: string): Promise<ElectionSnapshot[]> {
  const directory = path ?? below(client, 'elections');
  const children = await childrenOf(client, directory);
  const paths = children.some((name) => /-(?:latch|lock)-\d+$/.test(name))
    ? [directory]
    : children.toSorted().map((name) => join(directory, name));
  const seen = await Promise.all(
    paths.map(async (each) => ({
      election: nameOf(each),
      path: each,
      participants: await readCandidates(client, each),
    })),
  );
  return seen.filter(({ participants }) => participants.length > 0);
}

/** Recognises the lock at a znode by its child nodes; undefined if none of them belongs to a lock. */
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

/** Resolves with `path` if it is a lock, else with its children. */
async function lockPaths(client: ZkClient, path: string): Promise<string[]> {
  const children = await childrenOf(client, path);
  return recipeOf(children) ? [path] : children.toSorted().map((name) => join(path, name));
}

function recipeOf(children: readonly string[]): LockSnapshot['recipe'] | undefined {
  if (children.some((name) => /__(?:READ|WRIT)__\d+$/.test(name))) return 'read/write';
  if (children.some((name) => /-lock-\d+$/.test(name))) return 'mutex';
  if (children.includes('leases') || children.includes('locks')) return 'semaphore';
  return undefined;
}

function below({ namespace }: ZkClient, name: string): string {
  return `${namespace}/${name}`;
}

function join(path: string, name: string): string {
  return `${path}/${name}`;
}

/** Returns the key of which this library made a znode's name. */
function nameOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
