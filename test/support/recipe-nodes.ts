import { expect } from 'vitest';
import { NodeError, type ZkClient } from '../../lib/client/index.js';
import { serverHas, type TestServer } from './servers.js';

/** Returns the children of a path, or an empty list if the path does not exist. */
export async function nodesUnder(client: ZkClient, path: string): Promise<string[]> {
  try {
    return (await client.children(path)).children.sort();
  } catch (error) {
    // The path was not created yet, or was an empty container that the server has reaped.
    if (error instanceof NodeError && error.code === 'NO_NODE') return [];
    throw error;
  }
}

/** Resolves when `count` nodes are under `path`. */
export async function untilNodes(client: ZkClient, path: string, count: number): Promise<void> {
  await expect.poll(() => nodesUnder(client, path), { interval: 5 }).toHaveLength(count);
}

/**
 * Resolves when nothing of a lock is left: no node in any of its queues and no watch on the server.
 */
export async function untilNothingLeft(
  server: TestServer,
  client: ZkClient,
  ...paths: string[]
): Promise<void> {
  for (const path of paths) await untilNodes(client, path, 0);
  if (!serverHas.watchRemoval) return;
  await expect.poll(() => server.watchCount(), { interval: 10 }).toBe(0);
}

/** Returns the error that a promise rejects with. */
export function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => {
      throw new Error(`it resolved with ${String(value)}`);
    },
    (error: unknown) => error,
  );
}

/** Wraps a promise with its present outcome. */
export function observed<T>(promise: Promise<T>): { promise: Promise<T>; settled: boolean } {
  const state = { promise, settled: false };
  const settle = () => (state.settled = true);
  promise.then(settle, settle);
  return state;
}
