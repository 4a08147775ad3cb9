import { inspect } from 'node:util';
import { describe, expect, vi } from 'vitest';
import {
  BadOptionError,
  LeaderLatch,
  type Lock,
  LockRevokedError,
  LockTimeoutError,
  Mutex,
  NotAuthorizedError,
  ReadWriteLock,
  revoke,
  Semaphore,
  SharedCount,
  ZkClient,
  type ZkClientOptions,
} from 'nestjs-zookeeper/recipes';
import { RefusedDeletes } from '../../../lib/client/zk-client.js';
import { aborted, useClients, useLinks } from '../../support/clients.js';
import { useChannels } from '../../support/diagnostics-channels.js';
import { failureOf, nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { credentialsOf } from '../../support/sessions.js';
import { afterEach, it } from '../../support/virtual-time.js';

const server = useServer();
const newLink = useLinks(server);
const connect = useClients(server);

const ACL = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];

function identity(user: string): Partial<ZkClientOptions> {
  return { auth: [{ scheme: 'digest', user, password: `${user}'s secret` }], acl: ACL };
}

interface Recipe {
  name: string;
  make: (client: ZkClient, path: string) => Lock;
  directories: string[];
  held: string;
}

const recipes: Recipe[] = [
  { name: 'mutex', make: (client, path) => new Mutex(client, path), directories: [''], held: '' },
  {
    name: 'semaphore',
    make: (client, path) => new Semaphore(client, path, { permits: 1 }),
    directories: ['', '/locks', '/leases'],
    held: '/leases',
  },
];

describe('a client with an identity and an ACL', () => {
  it.each(recipes)(
    'another identity can neither delete a node of a $name nor add one',
    async ({ make, directories, held }) => {
      const path = `${server.path('secured')}/lock`;
      const owner = await connect(identity('shop'));
      const stranger = await connect(identity('mallory'));
      const lease = await make(owner, path).acquire();
      // Without a caller at the head of the queue, the directory may be reaped.
      const waiting = make(owner, path).acquire();
      if (held) await untilNodes(owner, `${path}/locks`, 1);
      const [node] = await nodesUnder(owner, path + held);
      const attempts = [
        stranger.delete(`${path}${held}/${node}`),
        stranger.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }]),
        make(stranger, path).acquire({ wait: 60_000 }),
        ...directories.flatMap((directory) => [
          stranger.create(`${path}${directory}/_c_x-lock-0000000000`),
          stranger.children(path + directory),
        ]),
      ];
      for (const error of await Promise.all(attempts.map(failureOf))) {
        expect(error).toBeInstanceOf(NotAuthorizedError);
      }
      expect(lease.held).toBe(true);
      // The ACL was never changed, so no other identity could ever add a node.
      expect((await owner.exists(path))!.aversion).toBe(0);
      await lease.release();
      await (await waiting).release();
      await untilNodes(owner, path + held, 0);
    },
  );

  it('another identity that knows the path of a node cannot request its revocation', async () => {
    const path = `${server.path('secured-open')}/lock`;
    const owner = await connect(identity('shop'));
    const stranger = await connect(identity('mallory'));
    const lease = await new Mutex(owner, path).acquire();
    const [holder] = await new Mutex(owner, path).participants();
    await expect(revoke(stranger, holder!)).rejects.toThrow(NotAuthorizedError);
    await revoke(owner, holder!);
    expect(await aborted(lease.revocation)).toBeInstanceOf(LockRevokedError);
    await lease.release();
  });
});

it('a client with two identities excludes, and shares its znodes with, a client of each of them', async () => {
  const path = `${server.path('rotated')}/lock`;
  const [old, next] = [identity('shop'), identity('shop-2')];
  const both = await connect({ ...next, auth: [...next.auth!, ...old.auth!] });
  const lease = await new Mutex(both, path).acquire();
  const others = await Promise.all([connect(old), connect(next)]);
  for (const other of others) expect(await new Mutex(other, path).tryAcquire()).toBeUndefined();
  await lease.release();
  for (const other of others) await new Mutex(other, path).withLock(() => {});
});

describe('without the permission to create in the parent of its directory', () => {
  it('a shared count and a lock can be used', async () => {
    const client = await connect();
    const root = await client.create(server.path('no-create'));
    await client.create(`${root}/counts`);
    await client.create(`${root}/lock`);
    await client.setAcl(root, [{ scheme: 'world', id: 'anyone', permissions: 'r' }]);
    const count = new SharedCount(client, `${root}/counts/permits`);
    await count.set(3);
    await count.set(4);
    expect(await count.get()).toMatchObject({ value: 4 });
    await new Mutex(client, `${root}/lock`).withLock(() => undefined);
  });
});

describe('with the permissions to create, read and delete only', () => {
  it('locks, semaphores and elections work', async () => {
    const options = {
      ...identity('shop'),
      acl: [{ scheme: 'auth' as const, id: '', permissions: 'crd' }],
    };
    const [client, other] = [await connect(options), await connect(options)];
    const root = server.path('crd');
    const read = (each: ZkClient) => new ReadWriteLock(each, `${root}/read-write`).read;
    const write = (each: ZkClient) => new ReadWriteLock(each, `${root}/read-write`).write;
    const semaphore = (each: ZkClient) => new Semaphore(each, `${root}/permits`, { permits: 1 });
    for (const lockOf of [
      (each: ZkClient) => new Mutex(each, `${root}/lock`),
      read,
      write,
      semaphore,
    ]) {
      const lease = await lockOf(client).acquire();
      const next = lockOf(other).acquire();
      await lease.release();
      await (await next).release();
    }
    const latch = new LeaderLatch(client, `${root}/leader`);
    latch.start();
    await latch.await();
    await latch.close();
    expect(await nodesUnder(client, `${root}/lock`)).toEqual([]);
  });
});

describe('a directory whose ACL denies the release of its locks', () => {
  const channels = useChannels();

  /** Creates directories for locks in which nobody may delete a node. */
  async function undeletable(client: ZkClient, count: number): Promise<string[]> {
    const root = server.path('no-delete');
    const paths = Array.from({ length: count }, (_, index) => `${root}/${index}`);
    for (const path of paths) {
      await client.ensureContainers(path);
      await client.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'crwa' }]);
    }
    return paths;
  }

  function warnings(expected = 'ZK_DELETE_REFUSED'): Error[] {
    const seen: Error[] = [];
    vi.spyOn(process, 'emitWarning').mockImplementation(((
      text: string,
      { code }: object & { code?: string },
    ) => {
      if (code === expected) seen.push(new Error(text));
    }) as typeof process.emitWarning);
    return seen;
  }
  afterEach(() => vi.restoreAllMocks());

  it('is reported once, with the permission to grant, and each refusal is published', async () => {
    const client = await connect();
    const seen = warnings();
    const messages = channels.messages('delete-refused');
    const [first, second] = await undeletable(client, 2);
    for (const path of [first!, second!]) {
      const mutex = new Mutex(client, path);
      await (await mutex.acquire()).release();
      // The znode blocks the lock, and so each wait leaves one more.
      expect(await failureOf(mutex.acquire({ wait: 50 }))).toBeInstanceOf(LockTimeoutError);
      await expect.poll(() => messages.filter((one) => one.path.startsWith(path))).toHaveLength(2);
      expect(await nodesUnder(client, path)).toHaveLength(2);
    }
    expect(messages.map(({ first: isFirst }) => isFirst)).toEqual([true, false, true, false]);
    expect(messages.every((message) => message.client === client)).toBe(true);
    expect(seen.map(({ message }) => message)).toEqual(
      messages.filter((one) => one.first).map((one) => one.message),
    );
    expect(messages[0]!.message).toBe(
      `the server refused to delete ${messages[0]!.path}: the ACL of ${first} denies it (-102). Grant the permission 'd' (delete) on ${first} to this client. Until the session ends, this node blocks its lock or election`,
    );
  });

  it('becomes no process warning if a subscriber has logged it', async () => {
    const client = await connect();
    const seen = warnings();
    const [path] = await undeletable(client, 1);
    const messages = channels.messages('delete-refused');
    channels.listen('delete-refused', (message) => void (message.logged = true));
    await new Mutex(client, path!).withLock(() => undefined);
    await expect.poll(() => messages).toHaveLength(1);
    expect(seen).toEqual([]);
  });

  it('becomes a process warning if it denies the watch of a held lock', async () => {
    const client = await connect();
    const seen = warnings('ZK_WATCH_FAILED');
    const denied = new NotAuthorizedError('denied');
    vi.spyOn(await client.session(), 'get').mockRejectedValueOnce(denied);
    const lease = await new Mutex(client, server.path('no-read')).acquire();
    void lease.revocation;
    await expect.poll(() => seen).toHaveLength(1);
    expect(seen[0]!.message).toMatch(/no-read.* cannot be watched, .*denied/);
    await lease.release();
  });

  it('is reported again after 1,000 other directories at the latest, because no more are remembered', () => {
    const refused = new RefusedDeletes({} as ZkClient);
    const messages = channels.messages('delete-refused');
    channels.listen('delete-refused', (message) => void (message.logged = true));
    const firstOf = (index: number) => {
      refused.report(`/locks/${index}/node`, -102);
      return messages.at(-1)!.first;
    };
    expect(firstOf(0)).toBe(true);
    expect(firstOf(0)).toBe(false);
    for (let index = 1; index <= 1000; index++) firstOf(index);
    expect(firstOf(0)).toBe(true);
    expect(firstOf(1000)).toBe(false);
  });
});

describe('a password', () => {
  const SECRET = 'hunter2';

  it.each([
    ['auth', `shop:${SECRET}`],
    ['auth', [`shop:${SECRET}`]],
    ['auth', [{ scheme: 'digest', user: `shop:${SECRET}`, password: 'x' }]],
    ['auth', [{ scheme: 'digest', user: 'shop', password: [SECRET] }]],
    ['acl', [{ scheme: 'digest', id: `shop:${SECRET}`, permissions: 'r' }]],
    ['tls', SECRET],
    ['sasl', SECRET],
    ['sasl', { mechanism: 'DIGEST-MD5', user: [SECRET], password: SECRET }],
    ['password', SECRET],
  ])('is not in the error for %s: %j', (option, value) => {
    let failure: unknown;
    try {
      new ZkClient({ connectString: 'localhost', [option]: value } as unknown as ZkClientOptions);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(BadOptionError);
    expect(inspect(failure, { depth: 9 })).not.toContain(SECRET);
  });

  it('is in no inspection of a session with its getters, and neither is that of the session', async () => {
    const auth = [{ scheme: 'digest' as const, user: 'shop', password: SECRET }];
    const client = await connect({ auth, acl: ACL });
    const session = await client.session();
    const shown = inspect(session, { depth: 20, getters: true, showHidden: true });
    expect(shown).not.toContain(SECRET);
    expect(shown).not.toContain(credentialsOf(session).password);
  });

  it('is in no message of the client, whatever fails', async () => {
    const outputs: unknown[] = [];
    const warn = (warning: Error) => outputs.push(warning);
    process.on('warning', warn);
    const auth = [{ scheme: 'digest' as const, user: 'shop', password: SECRET }];
    const client = await connect({ auth, acl: ACL });
    const path = `${server.path('told')}/lock`;
    const lease = await new Mutex(client, path).acquire();
    const stranger = await connect();
    outputs.push(client, lease, await client.session());
    outputs.push(await failureOf(stranger.get(`${path}/x`)));
    await lease.release();
    const link = await newLink();
    const { connectString } = link;
    const retry = { type: 'fixed' as const, delay: 1, maxRetries: 1 };
    await link.down();
    outputs.push(await failureOf(connect({ auth, connectString, retry })));
    await client.close();
    outputs.push(await failureOf(client.get('/')), client);
    process.off('warning', warn);
    expect(inspect(outputs, { depth: 9, showHidden: true })).not.toContain(SECRET);
    expect(JSON.stringify(outputs.map((item) => String(item)))).not.toContain(SECRET);
  });
});
