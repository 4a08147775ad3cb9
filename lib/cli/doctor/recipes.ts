import { ZkCache } from '../../coordination/recipes/cache.js';
import { DistributedAtomicLong } from '../../coordination/recipes/distributed-atomic-long.js';
import { DistributedBarrier } from '../../coordination/recipes/distributed-barrier.js';
import { DistributedDoubleBarrier } from '../../coordination/recipes/distributed-double-barrier.js';
import { DistributedQueue } from '../../coordination/recipes/distributed-queue.js';
import { GroupMember } from '../../coordination/recipes/group-member.js';
import { Partitioner } from '../../coordination/recipes/partitioner.js';
import { PersistentNode } from '../../coordination/recipes/persistent-node.js';
import {
  abortable,
  abortedAfter,
  ConnectionError,
  isCode,
  CoordinationError,
  type ZkClient,
} from '../../client/index.js';
import { LeaderLatch, type Lock, Mutex, Semaphore, WriteLock } from '../../recipes/index.js';
import { Failure } from '../exit.js';
import type { Check } from './servers.js';

/** Milliseconds for one recipe. */
const LIMIT = 10_000;

/** Uses a recipe once, alone, below a path that does not exist. */
type Run = (client: ZkClient, path: string) => Promise<unknown>;

const RECIPES: Readonly<Record<string, Run>> = {
  mutex: (client, path) => acquireTwice(new Mutex(client, path)),
  'read/write lock': (client, path) => acquireTwice(new WriteLock(client, path)),
  semaphore: (client, path) => acquireTwice(new Semaphore(client, path, { permits: 1 })),
  async 'leader election'(client, path) {
    const latch = new LeaderLatch(client, path);
    latch.start();
    await latch.await();
    await latch.close();
  },
  partitions: (client, path) =>
    untilCalled(async (onPartition, onError) => {
      const options = { partitions: 1, rebalanceDelay: 0, onError };
      new Partitioner(client, path, onPartition, options).start();
    }),
  queue: (client, path) =>
    untilCalled(async (onItem, onError) => {
      const queue = new DistributedQueue(client, path, { onError });
      queue.consume(onItem);
      await queue.put(Buffer.from('item'));
    }),
  counter: (client, path) => new DistributedAtomicLong(client, path).increment(),
  async barrier(client, path) {
    const barrier = new DistributedBarrier(client, path);
    await barrier.setBarrier();
    await barrier.removeBarrier();
    await barrier.waitOnBarrier();
  },
  async 'double barrier'(client, path) {
    const barrier = new DistributedDoubleBarrier(client, path, 1);
    await barrier.enter();
    await barrier.leave();
  },
  async cache(client, path) {
    const cache = new ZkCache(client, path);
    cache.start();
    await cache.initialized();
    await cache.close();
  },
  'group member': (client, path) =>
    untilCalled(async (onChange, onError) => {
      const member = new GroupMember(client, path, { onError });
      member.onChange(onChange);
      member.start();
    }),
  async 'persistent node'(client, path) {
    const node = new PersistentNode(client, path);
    node.start();
    await node.waitForInitialCreate();
    await node.close();
  },
  // A PersistentNode would repeat a refused create.
  'persistent TTL node': (client, path) => client.create(path, '', { ttl: 60_000 }),
  transactions: (client, path) => client.transaction([{ create: path }, { delete: path }]),
};

/**
 * Uses each recipe once, all at the same time, below a directory that the caller deletes.
 *
 * @throws the signal's reason
 */
export function checkRecipes(
  client: ZkClient,
  directory: string,
  signal: AbortSignal,
): Promise<Check[]> {
  const checks = Object.entries(RECIPES).map(async ([subject, run], index): Promise<Check> => {
    const check = { check: 'recipe', subject } as const;
    const limit = abortedAfter(LIMIT, signal);
    try {
      const once = (path: string) => abortable(run(client, path), limit);
      await once(`${directory}/${index}`).catch((error: unknown) => {
        // The loss of one connection proves nothing.
        if (error instanceof ConnectionError) return once(`${directory}/${index}-again`);
        throw error;
      });
      return { ...check, status: 'ok', message: 'works' };
    } catch (error) {
      signal.throwIfAborted();
      const isMissing = isCode(error, 'UNIMPLEMENTED');
      const status = isMissing ? 'unavailable' : 'unsafe';
      return { ...check, status, message: `does not work: ${reasonOf(error, limit)}` };
    }
  });
  return Promise.all(checks);
}

function reasonOf(error: unknown, { aborted }: AbortSignal): string {
  if (aborted) return `no result within ${LIMIT / 1000} s`;
  if (error instanceof CoordinationError || error instanceof Failure) return error.message;
  throw error;
}

/** The second holder must get a higher fencing token, by which a resource refuses the first one. */
async function acquireTwice(lock: Lock): Promise<void> {
  const tokens: bigint[] = [];
  for (let holder = 0; holder < 2; holder++) {
    const lease = await lock.acquire();
    tokens.push(lease.fencingToken);
    await lease.release();
  }
  if (!(tokens[1]! > tokens[0]!)) throw new Failure('its fencing tokens do not rise');
}

/** Resolves when `start` has called its first argument, and rejects when it has called the second one. */
function untilCalled(
  start: (done: () => void, failed: (error: Error) => void) => Promise<void>,
): Promise<void> {
  return new Promise<void>((resolve, reject) => start(() => resolve(), reject).catch(reject));
}
