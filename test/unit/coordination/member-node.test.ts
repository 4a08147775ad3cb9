import { expect, test } from 'vitest';
import {
  ConnectionError,
  NodeError,
  type Session,
  SessionExpiredError,
  type ZkClient,
} from '../../../lib/client/index.js';
import { ErrorReporter } from '../../../lib/coordination/recipes/internals/error-reporter.js';
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
  return { deletes, created: node.create(session, DATA, stop.signal) };
}

const lost = (maybeApplied: boolean) => new ConnectionError('lost', { maybeApplied });
const exists = new NodeError('NODE_EXISTS', PATH, -110, 'create');

test('a member that is closed after a lost reply deletes the znode that it has created', async () => {
  const { created, deletes } = setUp('own', lost(true));
  await expect(created).rejects.toThrow('stopped');
  expect(deletes).toEqual([PATH]);
});

test('a member that is closed while it reads its znode after a lost reply deletes it', async () => {
  const { created, deletes } = setUp('own', lost(true), exists);
  await expect(created).rejects.toThrow('stopped');
  expect(deletes).toEqual([PATH]);
});

test.each([true, false])(
  'a member that is closed after a lost create (maybeApplied: %s) leaves the znode of another session',
  async (maybeApplied) => {
    const { created, deletes } = setUp('other', lost(maybeApplied));
    await expect(created).rejects.toThrow('stopped');
    expect(deletes).toEqual([]);
  },
);

test('a member deletes the znode of its former session at once, without an error', async () => {
  const errors: Error[] = [];
  const requests: unknown[][] = [];
  let owner: string | undefined;
  const sessionOf = (id: string) =>
    ({
      id,
      create: (path: string) => {
        if (owner) return Promise.reject(new NodeError('NODE_EXISTS', path, -110, 'create'));
        owner = id;
        return Promise.resolve(path);
      },
      get: () => Promise.resolve({ stat: { ephemeralOwner: owner, version: 3 }, watch }),
      sync: () => Promise.reject(new SessionExpiredError('expired')),
      delete: (...request: unknown[]) => {
        requests.push(request);
        owner = undefined;
        return Promise.resolve();
      },
    }) as unknown as Session;
  const watch = { fired: new Promise(() => {}), remove: () => {} };
  const node = new MemberNode({} as ZkClient, PATH, new ErrorReporter((e) => errors.push(e)));
  const { signal } = new AbortController();
  expect(await node.create(sessionOf('1'), DATA, signal)).toBe(true);
  await node.delete();
  expect(await node.create(sessionOf('2'), DATA, signal)).toBe(true);
  expect([owner, requests, errors]).toEqual(['2', [[PATH, 3]], []]);
});
