import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  BadOptionError,
  LeaderLatch,
  type Lock,
  LockRevokedError,
  Mutex,
  NodeError,
  NonReentrantMutex,
  NotAuthorizedError,
  ReadWriteLock,
  revoke,
  Semaphore,
  ZkClient,
  type ZkClientOptions,
} from 'nestjs-zookeeper/recipes';
import { aborted, useClients } from '../../support/clients.js';
import { failureOf, nodesUnder, untilNodes } from '../../support/recipe-nodes.js';
import { fourLetterWord } from '../../support/real-zookeeper.js';
import { useServer } from '../../support/servers.js';

const server = useServer();
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
    name: 'write lock',
    make: (client, path) => new ReadWriteLock(client, path).write,
    directories: [''],
    held: '',
  },
  {
    name: 'semaphore',
    make: (client, path) => new Semaphore(client, path, { permits: 1 }),
    directories: ['', '/locks', '/leases'],
    held: '/leases',
  },
  {
    name: 'non-reentrant mutex',
    make: (client, path) => new NonReentrantMutex(client, path),
    directories: ['', '/locks', '/leases'],
    held: '/leases',
  },
];

describe.each(['native', 'wire'] as const)('over %s', (transport) => {
  it.each(recipes)(
    'another identity can neither delete a node of a $name nor add one',
    async ({ make, directories, held }) => {
      const path = `${server.path('secured')}/lock`;
      const owner = await connect({ transport, ...identity('shop') });
      const stranger = await connect({ transport, ...identity('mallory') });
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
      await lease.release();
      await (await waiting).release();
      await untilNodes(owner, path + held, 0);
    },
  );

  it('a limit of ACLs: a client that knows the path of a node may request its revocation', async () => {
    const path = `${server.path('secured-open')}/lock`;
    const owner = await connect({ transport, ...identity('shop') });
    const stranger = await connect({ transport, ...identity('mallory') });
    const lease = await new Mutex(owner, path).acquire();
    const { revocation } = lease;
    const [holder] = await new Mutex(owner, path).participants();
    await revoke(stranger, holder!);
    expect(await aborted(revocation)).toBeInstanceOf(LockRevokedError);
    expect(lease.held).toBe(true);
    await lease.release();
  });

  it('another identity cannot join an election', async () => {
    const path = `${server.path('secured-election')}/latch`;
    const owner = await connect({ transport, ...identity('shop') });
    const stranger = await connect({ transport, ...identity('mallory') });
    const latch = new LeaderLatch(owner, path);
    latch.start();
    await latch.await();
    const intruder = new LeaderLatch(stranger, path, { onError: () => {} });
    intruder.start();
    expect(await failureOf(intruder.await())).toBeInstanceOf(NotAuthorizedError);
    await intruder.close();
    expect(latch.hasLeadership).toBe(true);
    await latch.close();
  });

  it('a directory has its ACL from its creation, so another identity can never add a node', async () => {
    const root = server.path('no-window');
    const owner = await connect({ transport, ...identity('shop') });
    const stranger = await connect({ transport: 'wire' });
    let over = false;
    let current = `${root}/0`;
    const intruding = (async () => {
      const answers = new Set<string>();
      while (!over) {
        const error = await failureOf(stranger.create(`${current}/_c_x-lock-`));
        answers.add((error as NodeError).code);
      }
      return answers;
    })();
    for (let round = 0; round < 20; round++) {
      current = `${root}/${round}`;
      await new Mutex(owner, current).withLock(() => undefined);
      const stat = await owner.exists(current);
      // The ACL was never changed. The node may be gone if the container was reaped.
      expect(stat?.aversion ?? 0).toBe(0);
    }
    over = true;
    for (const answer of await intruding) expect(['NO_NODE', 'NOT_AUTHORIZED']).toContain(answer);
  });

  it('many locks at a time share the session that creates their directories', async () => {
    const root = server.path('many');
    const owner = await connect({ transport, ...identity('shop') });
    // The connections of the owner and of this query. Connections of earlier tests may take a
    // moment to close.
    const before = 2;
    await expect.poll(connections).toBe(before);
    let most = 0;
    let over = false;
    const counting = (async () => {
      while (!over) most = Math.max(most, await connections());
    })();
    await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        new Mutex(owner, `${root}/${index}`).withLock(() => undefined),
      ),
    );
    over = true;
    await counting;
    // One session, or a few if some locks came late and the first session was closing by then.
    expect(most - before).toBeLessThanOrEqual(5);
    await expect.poll(connections).toBe(before);
  });
});

/** Returns the number of connections, including that of this query. */
async function connections(): Promise<number> {
  const answer = await fourLetterWord(server.port, 'mntr');
  return Number(/zk_num_alive_connections\s+(\d+)/.exec(answer)![1]);
}

describe('a password', () => {
  const SECRET = 'hunter2';

  it.each([
    ['auth', `shop:${SECRET}`],
    ['auth', [`shop:${SECRET}`]],
    ['auth', [{ scheme: 'digest', user: `shop:${SECRET}`, password: 'x' }]],
    ['auth', [{ scheme: 'digest', user: 'shop', password: [SECRET] }]],
    ['acl', [{ scheme: 'digest', id: `shop:${SECRET}`, permissions: 'r' }]],
    ['tls', SECRET],
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

  it.each(['native', 'wire'] as const)(
    'over %s is in no message of the client, whatever fails',
    async (transport) => {
      const outputs: unknown[] = [];
      const warn = (warning: Error) => outputs.push(warning);
      process.on('warning', warn);
      const auth = [{ scheme: 'digest' as const, user: 'shop', password: SECRET }];
      const client = await connect({ transport, auth, acl: ACL });
      const path = `${server.path('told')}/lock`;
      const lease = await new Mutex(client, path).acquire();
      const stranger = await connect({ transport });
      outputs.push(client, lease, await client.session());
      outputs.push(await failureOf(stranger.get(`${path}/x`)));
      await lease.release();
      outputs.push(
        await failureOf(
          connect({
            transport,
            auth,
            connectString: '127.0.0.1:1',
            retry: { type: 'fixed', delay: 1, maxAttempts: 1 },
          }),
        ),
      );
      await client.close();
      outputs.push(await failureOf(client.get('/')), client);
      process.off('warning', warn);
      expect(inspect(outputs, { depth: 9, showHidden: true })).not.toContain(SECRET);
      expect(JSON.stringify(outputs.map((item) => String(item)))).not.toContain(SECRET);
    },
  );
});
