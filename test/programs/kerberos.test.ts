import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  ConnectionError,
  type GssapiOptions,
  NotAuthorizedError,
  ZkClient,
  type ZkClientOptions,
} from '../../lib/client/index.js';
import { Mutex } from '../../lib/recipes/index.js';
import { Kdc, kerberosLogin, REALM } from '../support/kdc.js';
import { installKerberos, resolveKerberos } from '../support/kerberos-package.js';
import { digestLogin, SaslServer } from '../support/sasl-servers.js';
import { recordStates } from '../support/sessions.js';

// The embedded server has no SASL, so this needs a real one, a KDC and the npm package `kerberos`.

const SERVER = 'zookeeper/localhost';

const clients: ZkClient[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

const environment = ['KRB5_CONFIG', 'KRB5CCNAME', 'KRB5_CLIENT_KTNAME'] as const;
const before = environment.map((name) => process.env[name]);
afterAll(() => {
  for (const [index, name] of environment.entries()) setVariable(name, before[index]);
});

function setVariable(name: (typeof environment)[number], value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}

describe('a connection with GSSAPI', () => {
  let kdc: Kdc;
  let server: SaslServer;
  let serverKeys: string;
  const keyTables: Record<string, string> = {};

  beforeAll(async () => {
    await installKerberos();
    resolveKerberos();
    kdc = await Kdc.start();
    serverKeys = await kdc.keyTable(SERVER);
    await kdc.keyTable('zookeeper/other');
    for (const name of ['shop', 'mallory']) keyTables[name] = await kdc.keyTable(name);
    server = await serve();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await kdc?.[Symbol.asyncDispose]();
  });

  const serve = (login = kerberosLogin(SERVER, serverKeys)) =>
    SaslServer.start(login, { jvm: [`-Djava.security.krb5.conf=${kdc.config}`] });

  /** Sets the variables that the Kerberos library reads. */
  function useCache(cache: string, keyTable?: string): void {
    setVariable('KRB5_CONFIG', kdc.config);
    setVariable('KRB5CCNAME', cache);
    setVariable('KRB5_CLIENT_KTNAME', keyTable);
  }

  const useTicketOf = async (name: string, lifetime?: number) =>
    useCache(await kdc.ticket(name, keyTables[name]!, lifetime));

  function make(options: Partial<ZkClientOptions> & { gssapi?: Partial<GssapiOptions> }): ZkClient {
    const { gssapi, ...others } = options;
    const client = new ZkClient({
      connectString: server.connectString,
      // Longer than any restart of a JVM.
      sessionTimeout: 600_000,
      connectTimeout: 15_000,
      sasl: { mechanism: 'GSSAPI', ...gssapi },
      ...others,
    });
    clients.push(client);
    return client;
  }

  /** Returns the error of connect(), which must not be retried. */
  async function refusal(gssapi: Partial<GssapiOptions> = {}): Promise<string> {
    const error: unknown = await make({ gssapi })
      .connect()
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NotAuthorizedError);
    return (error as Error).message;
  }

  test('carries locks below a namespace that only its principal may use, also after a restart', async () => {
    await useTicketOf('shop');
    const acl = [{ scheme: 'sasl' as const, id: `shop@${REALM}`, permissions: 'cdrwa' }];
    const owner = make({ namespace: 'shop', acl });
    await owner.connect();
    expect(owner.transport).toBe('wire');
    const lease = await new Mutex(owner, '/shop/lock').acquire();

    const log = recordStates(owner);
    await server.zookeeper.restart();
    await log.until('SUSPENDED', 'RECONNECTED');
    expect(lease.held).toBe(true);
    // Only the principal may read it: the new connection is authenticated.
    expect(await owner.children('/shop/lock')).toMatchObject({ children: [expect.anything()] });

    await useTicketOf('mallory');
    const stranger = make({});
    await stranger.connect();
    await expect(stranger.children('/shop/lock')).rejects.toBeInstanceOf(NotAuthorizedError);
    await lease.release();
  });

  test('uses a key table of the client, with which the library gets tickets itself', async () => {
    useCache(kdc.missingCache(), keyTables.shop);
    await make({}).connect();
    await make({ gssapi: { principal: `shop@${REALM}` } }).connect();
  });

  test('may have the same principal for all servers, whatever their names are', async () => {
    await useTicketOf('shop');
    await make({
      connectString: `127.0.0.1:${server.zookeeper.port}`,
      gssapi: { service: 'zookeeper', host: 'localhost' },
    }).connect();
  });

  test('without a ticket is refused, and the error names kinit', async () => {
    useCache(kdc.missingCache());
    expect(await refusal()).toMatch(/No Kerberos credentials available.*Get a ticket with kinit/);
  });

  test('with an expired ticket is refused, and the error says how to renew it', async () => {
    await useTicketOf('shop', 1);
    await expect
      .poll(() => refusal().catch(() => 'not yet'))
      .toMatch(/Ticket expired\. Get a new ticket with kinit.*KRB5_CLIENT_KTNAME/);
  });

  test('with the ticket of another principal than the option names is refused', async () => {
    await useTicketOf('shop');
    expect(await refusal({ principal: 'mallory' })).toMatch(/mallory@EXAMPLE\.COM.*kinit/);
  });

  test('with a principal of the server that the KDC does not know is refused, and the error names the options', async () => {
    await useTicketOf('shop');
    expect(await refusal({ host: 'nowhere' })).toMatch(
      /zookeeper\/nowhere@EXAMPLE\.COM not found.*set sasl\.service, sasl\.host/,
    );
  });

  test('with the principal of another server is refused, and the error names the key table', async () => {
    await useTicketOf('shop');
    expect(await refusal({ host: 'other' })).toMatch(
      /refused the Kerberos ticket.*\(-115\).*zookeeper\/other and a key table/,
    );
  });

  test('is refused by a server with DIGEST-MD5, and the error names the mechanism', async () => {
    await useTicketOf('shop');
    await server.restartWith(digestLogin({ shop: 'secret' }));
    try {
      expect(await refusal()).toMatch(/another mechanism: .*must use Krb5LoginModule/);
    } finally {
      await server.restartWith(kerberosLogin(SERVER, serverKeys));
    }
  });

  test('is refused by a server that uses Kerberos if the client uses DIGEST-MD5', async () => {
    const sasl = { mechanism: 'DIGEST-MD5', user: 'shop', password: 'hunter2' } as const;
    const error: unknown = await make({ sasl })
      .connect()
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(NotAuthorizedError);
    expect((error as Error).message).toMatch(/refused the mechanism DIGEST-MD5.*'GSSAPI'/);
    expect(inspect(error, { depth: 9 })).not.toContain('hunter2');
  });

  test('is retried while no KDC replies', async () => {
    useCache(kdc.missingCache(), keyTables.shop);
    await kdc.stop();
    try {
      const client = make({ retry: { type: 'fixed', delay: 10, maxRetries: 3 } });
      const error: unknown = await client.connect().catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(ConnectionError);
      expect((error as Error).message).toMatch(/contact any KDC.*Check the network/);
      await kdc.launch();
      await client.connect();
    } finally {
      await kdc.stop();
      await kdc.launch();
    }
  });
});
