import { expect, test } from 'vitest';
import {
  ConnectionError,
  type CreateMode,
  type Session,
  type ZkClient,
} from '../../../lib/client/index.js';
import { RecreatedNode } from '../../../lib/coordination/recipes/internals/recreated-node.js';

const PATH = '/a';

/** A client whose create is applied without a reply, and whose next server has the znode only after a sync. */
function setUp(mode: CreateMode, lostDeletes = 0) {
  const stop = new AbortController();
  const deletes: string[] = [];
  let znode: { czxid: number; ephemeralOwner: string } | undefined;
  let synced = false;
  let lagging: typeof znode;
  const session = {
    id: 'own',
    alive: true,
    connected: true,
    create: () => {
      znode = { czxid: 1, ephemeralOwner: mode === 'ephemeral' ? 'own' : '0' };
      stop.abort(new Error('stopped'));
      return Promise.reject(new ConnectionError('lost', { maybeApplied: true }));
    },
    sync: () => Promise.resolve(void (synced = true)),
    exists: () => Promise.resolve(synced ? znode : lagging),
    delete: (path: string) => {
      deletes.push(path);
      if (deletes.length > lostDeletes) return Promise.resolve();
      // The delete is applied without a reply, and another client creates the znode anew.
      lagging = znode;
      synced = false;
      znode = { czxid: 2, ephemeralOwner: '0' };
      return Promise.reject(new ConnectionError('lost', { maybeApplied: true }));
    },
    guaranteedDelete: (path: string) => Promise.resolve(void deletes.push(path)),
  } as unknown as Session;
  const client = {
    session: ({ signal }: { signal?: AbortSignal } = {}) =>
      signal?.aborted ? Promise.reject(signal.reason as Error) : Promise.resolve(session),
  } as unknown as ZkClient;
  const node = new RecreatedNode(client, PATH, mode);
  return { deletes, node, created: node.create(session, Buffer.alloc(0), stop.signal) };
}

test.each(['ephemeral', 'persistent'] as const)(
  'a node of mode %s that was created without a reply is deleted',
  async (mode) => {
    const { node, created, deletes } = setUp(mode);
    await expect(created).rejects.toThrow('stopped');
    await node.delete();
    expect(deletes).toEqual([PATH]);
  },
);

test('the znode that another client creates after a delete without a reply is not deleted', async () => {
  const { node, created, deletes } = setUp('persistent', 1);
  await expect(created).rejects.toThrow('stopped');
  await node.delete();
  expect(deletes).toEqual([PATH]);
});
