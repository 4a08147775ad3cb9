import { expect, test } from 'vitest';
import {
  ConnectionError,
  NodeError,
  type Session,
  type ZkClient,
} from '../../../lib/client/index.js';
import { ErrorReporter } from '../../../lib/kernel/error-reporter.js';
import { MemberNode } from '../../../lib/coordination/recipes/member-node.js';

const PATH = '/group/a';
const DATA = Buffer.alloc(0);

/** A session in which the creates fail with these errors, and whose requests are recorded. */
function setUp(owner: string, ...failures: Error[]) {
  const stop = new AbortController();
  const deletes: string[] = [];
  // A server that lags behind has the znode only after a sync.
  let synced = false;
  const session = {
    id: 'own',
    alive: true,
    connected: true,
    create: () => {
      const failure = failures.shift();
      if (!failures.length) stop.abort(new Error('stopped'));
      return Promise.reject(failure!);
    },
    get: () => Promise.reject(new ConnectionError('no connection')),
    sync: () => Promise.resolve(void (synced = true)),
    exists: () => Promise.resolve(synced ? { ephemeralOwner: owner } : undefined),
    guaranteedDelete: (path: string) => Promise.resolve(void deletes.push(path)),
  } as unknown as Session;
  const client = {
    session: ({ signal }: { signal: AbortSignal }) =>
      signal.aborted ? Promise.reject(signal.reason as Error) : Promise.resolve(session),
  } as unknown as ZkClient;
  const node = new MemberNode(client, PATH, new ErrorReporter(() => {}));
  return { deletes, node, created: node.create(session, DATA, stop.signal) };
}

const lost = (maybeApplied: boolean) => new ConnectionError('lost', { maybeApplied });
const exists = new NodeError('NODE_EXISTS', PATH, -110, 'create');

test('a member that is closed after a lost reply deletes the znode that it has created', async () => {
  const { created, deletes, node } = setUp('own', lost(true));
  await expect(created).rejects.toThrow('stopped');
  await node.delete();
  expect(deletes).toEqual([PATH]);
});

test('a member that is closed while it reads its znode after a lost reply deletes it', async () => {
  const { created, deletes, node } = setUp('own', lost(true), exists);
  await expect(created).rejects.toThrow('stopped');
  await node.delete();
  expect(deletes).toEqual([PATH]);
});

test('a member that begins again in its session and is closed before it has read its znode deletes it', async () => {
  const { created, deletes, node } = setUp('own', exists);
  await expect(created).rejects.toThrow('stopped');
  await node.delete();
  expect(deletes).toEqual([PATH]);
});

test.each([true, false])(
  'a member that is closed after a lost create (maybeApplied: %s) leaves the znode of another session',
  async (maybeApplied) => {
    const { created, deletes, node } = setUp('other', lost(maybeApplied));
    await expect(created).rejects.toThrow('stopped');
    await node.delete();
    expect(deletes).toEqual([]);
  },
);
