import { createHash } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { describe, expect, it } from 'vitest';
import { ZkClient } from 'nestjs-zookeeper';
import { Mutex } from 'nestjs-zookeeper/recipes';
import {
  AuthPacket,
  CreateRequest,
  ErrorCode,
  OpCode,
  ReadRequest,
  Xid,
} from '../../lib/protocol/index.js';
import { RawClient } from '../support/raw-client.js';
import { OPEN } from '../support/raw-requests.js';
import { fourLetterWord } from '../support/real-zookeeper.js';
import { useServerCommand } from '../support/server-command.js';

const WARNING =
  'Not for production: one process without replication. It loses its znodes when it stops.\n';

const start = useServerCommand();

describe('nestjs-zookeeper server', () => {
  it('prints how to connect, and that it is not for production', async () => {
    const server = start('--port', '0');
    await expect.poll(() => server.output.err).toBe(WARNING);
    server.child.kill('SIGTERM');
    const { code, out, err } = await server.ended;
    expect({ code, err }).toEqual({ code: 0, err: WARNING });
    const [, port] = /^ZooKeeper protocol on 127\.0\.0\.1:(\d+) — /.exec(out)!;
    expect(out.split('\n')).toEqual([
      `ZooKeeper protocol on 127.0.0.1:${port} — connectString: '127.0.0.1:${port}'`,
      `To list the locks: npx nestjs-zookeeper locks --zookeeper 127.0.0.1:${port}`,
      '',
    ]);
  });

  it('prints one line of JSON with --json, and serves locks', async () => {
    const server = start('--port', '0', '--json');
    const { port, ...address } = await server.started;
    expect(address).toEqual({
      host: '127.0.0.1',
      connectString: `127.0.0.1:${port}`,
      data: null,
    });
    const client = new ZkClient({ connectString: address.connectString });
    await client.connect();
    await using lease = await new Mutex(client, '/locks/a').acquire();
    expect(lease.held).toBe(true);
    await lease.release();
    await client.close();
    server.child.kill('SIGINT');
    expect(await server.ended).toMatchObject({ code: 0, err: WARNING });
  });

  it('has ticks of 2 seconds, or of --tick-time', async () => {
    const servers = [
      start('--port', '0', '--json'),
      start('--port', '0', '--json', '--tick-time', '100ms'),
    ];
    const timeouts = servers.map(async ({ started }) => {
      const client = await RawClient.connect({ port: (await started).port, timeout: 1 });
      return client.session.timeout;
    });
    expect(await Promise.all(timeouts)).toEqual([4_000, 200]);
  });

  it('has session limits, four-letter words and a superuser of its options', async () => {
    const limits = ['--min-session-timeout', '1s', '--max-session-timeout', '1500ms'];
    const hash = createHash('sha1').update('super:secret').digest('base64');
    const { started } = start(
      ...['--port', '0', '--json', ...limits, '--super-digest', `super:${hash}`],
      ...['--four-letter-words', 'envi', 'mntr'],
    );
    const { port } = await started;
    const client = await RawClient.connect({ port, timeout: 1 });
    expect(client.session.timeout).toBe(1_000);
    expect(await fourLetterWord(port, 'envi')).toContain('zookeeper.version=');
    expect(await fourLetterWord(port, 'ruok')).toContain('not in the whitelist');
    const closed = { path: '/closed', data: null, acl: [{ ...OPEN[0]!, perms: 0 }], flags: 0 };
    await client.request(OpCode.create, CreateRequest, closed);
    const reading = () => client.request(OpCode.getData, ReadRequest, { ...closed, watch: false });
    expect((await reading()).err).toBe(ErrorCode.noAuth);
    const packet = { type: 0, scheme: 'digest', auth: Buffer.from('super:secret') };
    await client.request(OpCode.auth, AuthPacket, packet, undefined, Xid.auth);
    expect((await reading()).err).toBe(0);
  });

  it('copies another server with --server, and names a command that connects to it', async () => {
    const server = start('--port', '0', '--server', 'clickhouse-keeper');
    await expect.poll(() => server.output.err).toBe(WARNING);
    const [, port] =
      /^To list the locks: npx nestjs-zookeeper locks --zookeeper 127\.0\.0\.1:(\d+)$/m.exec(
        server.output.out,
      )!;
    expect(await fourLetterWord(Number(port), 'srvr')).toMatch(/^ClickHouse Keeper version: /);
  });

  it('warns about a --host that other machines reach, and limits the connections of each', async () => {
    const server = start(
      '--port',
      '0',
      '--json',
      '--host',
      '0.0.0.0',
      '--four-letter-words',
      'conf',
    );
    const { port } = await server.started;
    expect(await fourLetterWord(port, 'conf')).toContain('maxClientCnxns=60\n');
    await expect
      .poll(() => server.output.err)
      .toBe(
        `${WARNING}nestjs-zookeeper: every machine that reaches 0.0.0.0 can read and change the znodes, and the connections are not encrypted\n`,
      );
  });

  it('closes the connections at a signal, and ends with exit code 0', async () => {
    const server = start('--port', '0', '--json');
    const client = await RawClient.connect({ port: (await server.started).port });
    server.child.kill('SIGHUP');
    expect(await server.ended).toMatchObject({ code: 0, err: WARNING });
    await client.closed;
  });

  it('reports a port that is in use in one line', async () => {
    const other = net.createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as net.AddressInfo;
    expect(await start('--port', String(port)).ended).toMatchObject({
      code: 1,
      out: '',
      err: `nestjs-zookeeper: port ${port} of 127.0.0.1 is in use: choose another one with --port; 0 chooses a free one\n`,
    });
    other.close();
  });

  it('reports an address on which it cannot listen', async () => {
    const { code, err } = await start('--host', '192.0.2.1').ended;
    expect(code).toBe(1);
    expect(err).toMatch(/^nestjs-zookeeper: cannot listen on 192\.0\.2\.1: .*EADDRNOTAVAIL.*\n$/);
  });
});
