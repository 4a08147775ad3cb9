import { connect as connectTcp } from 'node:net';
import { ConnectionError, ZkClient, type TlsOptions } from '../../../lib/client/index.js';
import { Mutex } from '../../../lib/recipes/index.js';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Authority, type Identity, STORE_PASSWORD } from '../../support/certificates.js';
import { freePort, RealZooKeeper } from '../../support/real-zookeeper.js';
import { recordStates } from '../../support/sessions.js';

const clients: ZkClient[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

describe('a connection with TLS', () => {
  let authority: Authority;
  let client: Identity;
  let stranger: Identity;
  let mutual: RealZooKeeper;
  let oneSided: RealZooKeeper;
  let secure: { mutual: number; oneSided: number };

  beforeAll(async () => {
    const foreign = await Authority.make();
    authority = await Authority.make();
    const server = await authority.sign('server', 'DNS:localhost');
    client = await authority.sign('client', 'DNS:client');
    stranger = await foreign.sign('stranger', 'DNS:client');
    await foreign[Symbol.asyncDispose]();

    const serve = (secureClientPort: number, clientAuth: string) =>
      RealZooKeeper.start({
        maxSessionTimeout: 600_000,
        config: {
          secureClientPort,
          secureClientPortAddress: '127.0.0.1',
          serverCnxnFactory: 'org.apache.zookeeper.server.NettyServerCnxnFactory',
          'ssl.keyStore.location': server.keyStore,
          'ssl.keyStore.password': STORE_PASSWORD,
          'ssl.trustStore.location': authority.trustStore,
          'ssl.trustStore.password': STORE_PASSWORD,
          'ssl.clientAuth': clientAuth,
          'ssl.hostnameVerification': false,
        },
      });
    secure = { mutual: await freePort(), oneSided: await freePort() };
    [mutual, oneSided] = await Promise.all([
      serve(secure.mutual, 'need'),
      serve(secure.oneSided, 'none'),
    ]);
  });
  afterAll(async () => {
    await Promise.all([mutual?.dispose(), oneSided?.dispose()]);
    await authority?.[Symbol.asyncDispose]();
  });

  function make(connectString: string, tls?: TlsOptions): ZkClient {
    const made = new ZkClient({
      connectString,
      // Longer than any restart of a JVM.
      sessionTimeout: 600_000,
      // Its first handshake takes a while too.
      connectTimeout: 15_000,
      retry: { type: 'none' },
      ...(tls && { tls }),
    });
    clients.push(made);
    return made;
  }

  const refusal = async (connectString: string, tls?: TlsOptions): Promise<string> => {
    const error: unknown = await make(connectString, tls)
      .connect()
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ConnectionError);
    return (error as Error).message;
  };

  test('carries locks, and the session survives a broken connection', async () => {
    const zk = make(`localhost:${secure.oneSided}`, { ca: authority.cert });
    await zk.connect();
    expect(zk.transport).toBe('wire');
    const lease = await new Mutex(zk, '/tls/lock').acquire();
    const log = recordStates(zk);
    await oneSided.restart();
    await log.until('SUSPENDED', 'RECONNECTED');
    expect(lease.held).toBe(true);
    await zk.set('/tls', 'x'.repeat(500_000));
    expect((await zk.get('/tls')).data).toHaveLength(500_000);
    await lease.release();
  });

  test('is encrypted: the server does not answer a client without TLS', async () => {
    const socket = connectTcp(secure.oneSided, '127.0.0.1');
    const said = await new Promise<string>((resolve) => {
      let answer = '';
      socket.on('data', (chunk) => (answer += chunk.toString()));
      socket.on('error', () => {}).on('close', () => resolve(answer));
      socket.on('connect', () => socket.write('srvr\n\n\n\n\n\n\n\n'));
    });
    expect(said).not.toContain('Zookeeper version');
  });

  test('presents a client certificate to an ensemble that requires one', async () => {
    const { cert, key } = client;
    const zk = make(`localhost:${secure.mutual}`, { ca: authority.cert, cert, key });
    await zk.connect();
    expect(await zk.exists('/')).toBeDefined();
  });

  test('to the IP address of a server verifies the certificate against tls.servername', async () => {
    const zk = make(`127.0.0.1:${secure.oneSided}`, {
      ca: authority.cert,
      servername: 'localhost',
    });
    await zk.connect();
  });

  test("is rejected if no trusted authority signed the server's certificate, and the error says what to do", async () => {
    const message = await refusal(`localhost:${secure.oneSided}`, {});
    expect(message).toMatch(/localhost:\d+ did not attach a session: .*certificate.*; .*tls\.ca/);
  });

  test('is rejected if the certificate is for another host, and the error says what to do', async () => {
    const message = await refusal(`127.0.0.1:${secure.oneSided}`, { ca: authority.cert });
    expect(message).toMatch(/IP: 127\.0\.0\.1 is not in the cert's list.*; .*tls\.servername/);
  });

  test.each([
    ['no certificate', () => ({})],
    ['a certificate of another authority', () => ({ cert: stranger.cert, key: stranger.key })],
  ])(
    'with %s is rejected by an ensemble that requires a certificate, and the error says what to do',
    async (_, own) => {
      const tls = { ca: authority.cert, ...own() };
      expect(await refusal(`localhost:${secure.mutual}`, tls)).toMatch(
        /tls\.cert and tls\.key must be one that it trusts/,
      );
    },
  );

  test('to a port without TLS is rejected, and the error says what to do', async () => {
    const message = await refusal(`localhost:${oneSided.port}`, { ca: authority.cert });
    expect(message).toContain('secureClientPort');
  });

  test('is required by a TLS port: a client without the option cannot connect', async () => {
    expect(await refusal(`localhost:${secure.oneSided}`)).toContain('did not attach a session');
  });
});
