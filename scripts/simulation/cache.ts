import { setTimeout as sleep } from 'node:timers/promises';
import type { History } from './history.js';
import { connect, ROOT } from './jobs.js';
import { checkLeft, recordUnexpected } from './properties.js';
import { runWorkload } from './run-seed.js';
import { type Setting, withoutNest } from './setting.js';
import type { RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of a cache: each process has caches of one subtree and changes the znodes of it. The data of each write are
 * unique.
 */

type CachedNode = import('nestjs-zookeeper/coordination').CachedNode;
type CacheEvent = import('nestjs-zookeeper/coordination').CacheEvent;
type PersistentWatch = import('nestjs-zookeeper/recipes').PersistentWatch;
type World = import('nestjs-zookeeper/testing').World;
type ZkClient = import('nestjs-zookeeper/recipes').ZkClient;
type ZkCache = import('nestjs-zookeeper/coordination').ZkCache;

export const TREE = `${ROOT}/tree`;
const NAMES = ['a', 'b', 'c'];
const DEPTH = 3;
/** The average number of milliseconds between two writes of a process. */
const PAUSE = 40;
/** The probability that a process closes a cache and opens another one before a write. */
const REOPEN_PROBABILITY = 0.02;
/** Milliseconds within which the caches must equal the tree at the end. */
const CONVERGENCE_LIMIT = 5_000;
const STEP = 50;

/** Applies the events of a cache to a copy of its own, and compares it with that of the cache. */
export class CacheCheck {
  readonly cache: ZkCache;
  readonly #replayed = new Map<string, CachedNode>();
  /** The last transaction of each znode, also of those that were deleted. */
  readonly #latest = new Map<string, number>();

  constructor(
    client: ZkClient,
    private readonly context: JobContext,
    private readonly singleNode: boolean,
  ) {
    const { coordination } = context.library;
    const onError = (error: Error) => checkCacheError(error, context);
    this.cache = new coordination.ZkCache(client, TREE, { singleNode, onError });
    this.cache.onChange((event) => this.#onChange(event));
    this.cache.start();
  }

  /** Returns how the cache differs from the tree; undefined if it equals the tree. */
  difference(world: World): string | undefined {
    const { cache, singleNode } = this;
    const tree = world.znodes(ROOT).filter(({ path }) => {
      return path === TREE || (!singleNode && path.startsWith(`${TREE}/`));
    });
    if (cache.staleSince !== undefined) return `is stale since ${cache.staleSince}`;
    if (cache.size !== tree.length) return `has ${cache.size} znodes, and not ${tree.length}`;
    const wrong = tree.find(({ path, czxid, data }) => {
      const node = cache.get(path);
      return node?.stat.czxid !== czxid || !node.data.equals(data);
    });
    return wrong && `has ${cache.get(wrong.path)?.data} and not ${wrong.data} at ${wrong.path}`;
  }

  #onChange(event: CacheEvent): void {
    const { type, path } = event;
    const { history } = this.context;
    history.operations++;
    const violation = (property: string, why: string) => {
      const { name } = this.context.incarnation;
      history.recordViolation(property, `${name}: the ${type} event of ${path} ${why}`);
    };
    const known = this.#replayed.get(path);
    const old = type === 'created' ? undefined : event.old;
    if (known !== old) violation('each event follows the last one', 'has another old znode');
    if (type === 'deleted') {
      this.#replayed.delete(path);
    } else {
      const { mzxid } = event.node.stat;
      const latest = this.#latest.get(path) ?? 0;
      if (mzxid <= latest) {
        const why = `is of the transaction ${mzxid}, and an earlier one was of ${latest}`;
        violation('the copy of a znode never goes back', why);
      }
      this.#latest.set(path, mzxid);
      this.#replayed.set(path, event.node);
    }
    if (this.cache.get(path) !== this.#replayed.get(path)) {
      violation('the events give the copy', 'differs from the copy');
    }
    if (this.cache.size !== this.#replayed.size) {
      violation('the events give the copy', `leaves ${this.cache.size} znodes`);
    }
    if (this.cache.state === 'closed') {
      violation('a closed cache does not change', 'comes after close()');
    }
  }
}

export interface CacheProgram extends Program {
  readonly checks: readonly CacheCheck[];
}

/** Runs processes that write a subtree and cache it under the faults of one seed, and checks what happened. */
export const runCache: RunSeed = (library, options) =>
  runWorkload(
    { adjust: withoutNest, start: startCaches, workAfterRecovery: 500, checkEnd: checkCaches },
    library,
    options,
  );

async function startCaches(context: JobContext): Promise<CacheProgram> {
  const { acceptsWork, incarnation, random, world } = context;
  const client = await connect(context);
  // With another watch on the root, the caches cannot set a recursive one and use plain watches.
  const taken = random.chance(0.4) ? await watchRoot(client, context) : undefined;
  const open = () => new CacheCheck(client, context, random.chance(0.2));
  const checks = random.chance(0.3) ? [open(), open()] : [open()];
  const loop = async () => {
    for (let count = 0; acceptsWork(); count++) {
      await sleep(random.between(0, 2 * PAUSE));
      if (random.chance(REOPEN_PROBABILITY)) {
        const closed = checks[0]!.cache.close();
        checks[0] = open();
        await closed;
      }
      const data = `${incarnation.name} ${Math.round(world.now)} ${count}`;
      await write(client, data, context).catch((error: unknown) => checkCacheError(error, context));
    }
  };
  const closeCaches = () => Promise.all(checks.map(({ cache }) => cache.close()));
  return {
    client,
    checks,
    finished: loop(),
    leaveElections: async () => {
      await closeCaches();
      taken?.remove();
      const own = world.znodes(TREE).filter(({ session }) => session === incarnation.session);
      await Promise.all(own.map(({ path }) => client.delete(path)));
    },
    close: () => client.close(),
  };
}

async function watchRoot(
  client: ZkClient,
  context: JobContext,
): Promise<PersistentWatch | undefined> {
  try {
    return await (await client.session()).addWatch(TREE, () => {});
  } catch (error) {
    checkCacheError(error, context);
    return undefined;
  }
}

/** Creates, changes, deletes or replaces a random znode of the subtree. */
async function write(client: ZkClient, data: string, { random }: JobContext): Promise<void> {
  const names = Array.from({ length: random.whole(0, DEPTH) }, () => random.pick(NAMES));
  const path = [TREE, ...names].join('/');
  switch (random.pick(['create', 'create', 'set', 'set', 'delete', 'replace'])) {
    case 'create': {
      const mode = names.length === DEPTH && random.chance(0.3) ? 'ephemeral' : 'persistent';
      if (names.length === 0) await client.ensureContainers(ROOT);
      return void (await client.create(path, data, { mode }));
    }
    case 'set':
      return void (await client.set(path, data));
    case 'delete':
      return client.delete(path);
    default:
      await (await client.session()).transaction([{ delete: path }, { create: path, data }]);
  }
}

export function checkCacheError(error: unknown, context: JobContext): void {
  const { library, setting } = context;
  const { CoordinationError, NodeError } = library.recipes;
  const isExpected = setting.faultsUntil === 0 ? NodeError : CoordinationError;
  if (!(error instanceof isExpected)) recordUnexpected(error, context);
}

/** Checks that each cache equals the tree, and that the processes leave nothing. */
export async function checkCaches(
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  const end = world.now + CONVERGENCE_LIMIT;
  let differences = await differencesOf(workload, world);
  for (; differences.length > 0 && world.now < end;) {
    await world.sleep(STEP);
    differences = await differencesOf(workload, world);
  }
  for (const difference of differences) {
    history.recordViolation('each cache equals the tree at the end', difference);
  }
  await checkLeft(world, history, workload, setting);
}

/** Returns how the caches differ from the tree. */
async function differencesOf({ running }: Workload, world: World): Promise<string[]> {
  const all = running.map(({ name, process, program }) =>
    process.run(() => {
      const { checks } = program as CacheProgram;
      return checks
        .flatMap((check) => check.difference(world) ?? [])
        .map((why) => `${name} ${why}`);
    }),
  );
  return (await Promise.all(all)).flat();
}
