import { describe, expect, it } from 'vitest';
import type { Session } from '../../../lib/client/index.js';
import { FreeItems } from '../../../lib/coordination/recipes/internals/free-items.js';

const QUEUE = {
  path: '/queue',
  lockPath: '/queue-locks',
  prioritized: false,
  ensurePaths: () => Promise.resolve(),
};

describe('the watches of a consumer', () => {
  it('are removed if their replies come after its close', async () => {
    let watches = 0;
    const addWatch = () => {
      watches++;
      return { fired: new Promise<never>(() => {}), remove: () => void watches-- };
    };
    let reply!: () => void;
    const replied = new Promise<void>((resolve) => (reply = resolve));
    const session = {
      // The lock of the item exists.
      children: async (path: string) => ({
        children: ['queue-0'],
        watch: path === QUEUE.path ? addWatch() : undefined,
      }),
      exists: async () => {
        await replied;
        return { stat: {}, watch: addWatch() };
      },
    };
    const items = new FreeItems(
      QUEUE,
      () => false,
      () => {},
    );
    const taken = items.take(session as unknown as Session);
    await new Promise(setImmediate);
    expect(watches).toBe(1);
    items.close();
    reply();
    expect(await taken).toBeUndefined();
    expect(watches).toBe(0);
  });
});
