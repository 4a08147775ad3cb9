import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  NodeError,
  NotAuthorizedError,
  type SaslOptions,
  ZkClient,
  type ZkClientOptions,
} from '../../../lib/client/index.js';
import type { ConnectFailure } from '../../../lib/client/connector.js';
import { failedConnects } from '../../../lib/client/zk-client.js';
import { Mutex } from '../../../lib/recipes/index.js';
import { digestLogin, SaslServer } from '../../support/sasl-servers.js';
import { useServer } from '../../support/servers.js';
import { recordStates } from '../../support/sessions.js';

const PASSWORDS = {
  shop: 'hunter2',
  mallory: 'mellon',
  jürgen: 'pässwort',
  商店: '密码',
};

const digest = (user: string, password: string): { sasl: SaslOptions } => ({
  sasl: { mechanism: 'DIGEST-MD5', user, password },
});

const ofUser = (user: keyof typeof PASSWORDS) => digest(user, PASSWORDS[user]);

/** An ACL that admits one user of SASL. */
const aclOf = (id: string) => [{ scheme: 'sasl' as const, id, permissions: 'cdrwa' }];

const clients: ZkClient[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

function make(options: ZkClientOptions): ZkClient {
  // Longer than any restart of a JVM.
  const client = new ZkClient({ sessionTimeout: 600_000, connectTimeout: 15_000, ...options });
  clients.push(client);
  return client;
}

/** Returns the error of connect(), which must not retry: the default policy would take 9 seconds. */
async function refusal(options: ZkClientOptions): Promise<Error> {
  const client = make(options);
  const error = await client.connect().then(
    () => undefined,
    (reason: Error) => reason,
  );
  expect(error).toBeInstanceOf(NotAuthorizedError);
  return error!;
}

describe('SASL on a server without it', () => {
  const server = useServer();

  test('is refused at the start, and the error says what to configure', async () => {
    const { message } = await refusal({
      connectString: server.connectString,
      ...digest('shop', 'hunter2'),
    });
    expect(message).toMatch(/does not authenticate clients with SASL.*section Server.*option sasl/);
    expect(message).not.toContain('hunter2');
  });

  test('has no provider of ACLs for users of SASL', async () => {
    const client = make({ connectString: server.connectString });
    await client.connect();
    const error = await client.setAcl('/', aclOf('shop')).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NodeError);
    expect(error).toMatchObject({ code: 'INVALID_ACL' });
  });
});

describe('a connection with DIGEST-MD5', () => {
  let server: SaslServer;
  let strict: SaslServer;

  beforeAll(async () => {
    [server, strict] = await Promise.all([
      SaslServer.start(digestLogin(PASSWORDS)),
      SaslServer.start(digestLogin(PASSWORDS), {
        config: { requireClientAuthScheme: 'sasl', sessionRequireClientSASLAuth: true },
      }),
    ]);
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await strict?.[Symbol.asyncDispose]();
  });

  test('carries locks below a namespace that only its user may use, also after a restart', async () => {
    const acl = aclOf('shop');
    const { connectString } = server;
    const owner = make({ connectString, namespace: 'shop', acl, ...ofUser('shop') });
    await owner.connect();
    expect(owner.transport).toBe('wire');
    const lease = await new Mutex(owner, '/shop/lock').acquire();

    const shown = inspect([owner, await owner.session(), lease], { depth: 9, showHidden: true });
    expect(shown).not.toContain(PASSWORDS.shop);

    const log = recordStates(owner);
    await server.zookeeper.restart();
    await log.until('SUSPENDED', 'RECONNECTED');
    expect(lease.held).toBe(true);
    // Only the user may read it: the new connection is authenticated.
    expect(await owner.children('/shop/lock')).toMatchObject({ children: [expect.anything()] });

    const stranger = make({ connectString, ...ofUser('mallory') });
    const anonymous = make({ connectString });
    for (const client of [stranger, anonymous]) {
      await client.connect();
      await expect(client.children('/shop/lock')).rejects.toBeInstanceOf(NotAuthorizedError);
      await expect(new Mutex(client, '/shop/lock').acquire()).rejects.toBeInstanceOf(
        NotAuthorizedError,
      );
    }
    await lease.release();
  });

  test.each(['jürgen', '商店'] as const)('authenticates %s', async (user) => {
    const client = make({ connectString: server.connectString, ...ofUser(user) });
    await client.connect();
    const path = await client.create(`/${user}`);
    await client.setAcl(path, aclOf(user));
    expect(await client.children(path)).toMatchObject({ children: [] });
  });

  test('also has the identities of auth', async () => {
    const auth = [{ scheme: 'digest' as const, user: 'a', password: 'b' }];
    const client = make({ connectString: server.connectString, ...ofUser('shop'), auth });
    await client.connect();
    const path = await client.create('/both');
    await client.setAcl(path, [{ scheme: 'auth', id: '', permissions: 'cdrwa' }]);
    for (const options of [ofUser('shop'), { auth }]) {
      const other = make({ connectString: server.connectString, ...options });
      await other.connect();
      expect(await other.children(path)).toMatchObject({ children: [] });
    }
  });

  test.each([
    ['a wrong password', 'shop', 'mellon'],
    ['an unknown user', 'nobody', 'mellon'],
  ])(
    'is refused at the start with %s, without the password in the error',
    async (_, user, password) => {
      const { message } = await refusal({
        connectString: server.connectString,
        ...digest(user, password),
      });
      expect(message).toContain(`refused the user "${user}" or its password (-115). sasl.user and`);
      expect(message).not.toContain(password);
    },
  );

  test('is refused at a reconnection if the password has changed, until the server has it again', async () => {
    const changing = await SaslServer.start(digestLogin({ shop: 'old' }));
    try {
      const client = make({ connectString: changing.connectString, ...digest('shop', 'old') });
      await client.connect();
      const { sessionId } = client;
      const log = recordStates(client);
      const refused = nextRefusal(client);
      await changing.restartWith(digestLogin({ shop: 'new' }));
      expect((await refused).message).toContain('refused the user "shop" or its password');
      await changing.restartWith(digestLogin({ shop: 'old' }));
      await log.until('SUSPENDED', 'RECONNECTED');
      expect(client.sessionId).toBe(sessionId);
    } finally {
      await changing[Symbol.asyncDispose]();
    }
  });

  test('is required by a server: a client without the option is refused, and the error names it', async () => {
    const { connectString } = strict;
    for (const transport of ['native', 'wire'] as const) {
      const { message } = await refusal({ connectString, transport });
      expect(message).toMatch(
        /accepts only clients that authenticate \(-124\)\. Set the option sasl/,
      );
    }
    expect((await refusal({ connectString, ...digest('shop', 'wrong') })).message).toContain(
      'refused the user "shop" or its password (-124)',
    );
    const client = make({ connectString, ...ofUser('shop') });
    await client.connect();
    expect(await client.exists('/')).toBeDefined();
  });
});

/** Resolves to the error of the next attempt to connect that is refused. */
function nextRefusal(client: ZkClient): Promise<Error> {
  return new Promise((resolve) => {
    const onFailure = (message: unknown) => {
      const { client: failed, error } = message as ConnectFailure & { client: ZkClient };
      if (failed !== client || !(error instanceof NotAuthorizedError)) return;
      failedConnects.unsubscribe(onFailure);
      resolve(error);
    };
    failedConnects.subscribe(onFailure);
  });
}
