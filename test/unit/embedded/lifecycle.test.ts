import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper, type EmbeddedZooKeeperOptions } from 'nestjs-zookeeper/embedded';
import { CreateFlag } from '../../../lib/protocol/index.js';
import { RawClient } from '../../support/raw-client.js';
import { create, exists } from '../../support/raw-requests.js';
import { fourLetterWord } from '../../support/real-zookeeper.js';

const NO_NODE = -101;

describe('An embedded server', () => {
  const servers: EmbeddedZooKeeper[] = [];
  const start = async (options?: EmbeddedZooKeeperOptions) => {
    const server = await EmbeddedZooKeeper.start(options);
    servers.push(server);
    return server;
  };
  afterEach(async () => {
    for (const server of servers.splice(0)) await server.stop();
  });

  test('listens on loopback on a free port, and returns an address that a client can use', async () => {
    const one = await start({ fourLetterWords: ['ruok'] });
    expect(one.connectString).toBe(`127.0.0.1:${one.port}`);
    expect(await fourLetterWord(one.port, 'ruok')).toBe('imok');
    const everywhere = await start({ host: '0.0.0.0' });
    expect(everywhere.connectString).toBe(`127.0.0.1:${everywhere.port}`);
    expect(one.port).not.toBe(everywhere.port);
    // A machine may lack IPv6.
    const v6 = await start({ host: '::1' }).catch(() => undefined);
    if (v6) expect(v6.connectString).toBe(`[::1]:${v6.port}`);
  });

  test('rejects with the address if the port is in use', async () => {
    const { port } = await start();
    await expect(EmbeddedZooKeeper.start({ port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: expect.stringContaining(`127.0.0.1:${port}`),
    });
  });

  test('keeps its port, data and sessions over restart(), stop() and restart(), and dropConnections()', async () => {
    const server = await start();
    const { port } = server;
    let client = await RawClient.connect({ port });
    const { zxid } = await create(client, '/e', CreateFlag.ephemeral);
    const { sessionId, password } = client.session;
    for (const disconnect of [
      () => server.restart(),
      () => server.stop().then(() => server.restart()),
      () => server.dropConnections(),
    ]) {
      await disconnect();
      await client.closed;
      expect(server.port).toBe(port);
      const session = { sessionId, password: password!, lastZxidSeen: zxid };
      client = await RawClient.connect({ port, ...session });
      expect(client.session.sessionId).toBe(sessionId);
      expect((await exists(client, '/e')).body?.stat).toMatchObject({ ephemeralOwner: sessionId });
    }
  });

  test('keeps its data if a restart fails because another program uses the port', async () => {
    const server = await start();
    const { port } = server;
    const client = await RawClient.connect({ port });
    await create(client, '/kept');
    await server.stop();
    const other = await start({ port });
    await expect(server.restart()).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await other.stop();
    await server.restart();
    expect((await exists(await RawClient.connect({ port }), '/kept')).err).toBe(0);
  });

  test('expires a session by its id: its nodes are deleted, watches fire and its connection closes', async () => {
    const server = await start();
    const victim = await RawClient.connect({ port: server.port });
    const other = await RawClient.connect({ port: server.port });
    await create(victim, '/e', CreateFlag.ephemeral);
    await exists(other, '/e', true);
    await server.expireSession(`0x${victim.sessionIdHex}`);
    await victim.closed;
    expect(await other.untilEvents(1)).toEqual([{ type: 2, state: 3, path: '/e' }]);
    expect((await exists(other, '/e')).err).toBe(NO_NODE);
    await expect(server.expireSession(victim.sessionIdHex)).rejects.toThrow(
      `no session ${victim.sessionIdHex}`,
    );
    await expect(server.expireSession('xyz')).rejects.toThrow(TypeError);
  });

  test('stops once, closes everything, and rejects later calls', async () => {
    const server = await start();
    const client = await RawClient.connect({ port: server.port });
    await Promise.all([server.stop(), server.stop(), server[Symbol.asyncDispose]()]);
    await client.closed;
    await expect(RawClient.open(server.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await expect(server.dropConnections()).rejects.toThrow('it was stopped');
    await expect(server.expireSession('1')).rejects.toThrow('it was stopped');
  });

  test('runs starts and stops one after the other, however they are called', async () => {
    const server = await start({ fourLetterWords: ['ruok'] });
    await Promise.all([server.restart(), server.stop(), server.restart(), server.restart()]);
    expect(await fourLetterWord(server.port, 'ruok')).toBe('imok');
  });

  test('does not keep a process alive that never stops it', async () => {
    const entry = fileURLToPath(new URL('../../../dist/embedded/index.js', import.meta.url));
    const script = `
      import { EmbeddedZooKeeper } from ${JSON.stringify(entry)};
      const server = await EmbeddedZooKeeper.start();
      await server.restart();
      console.log(server.port > 0);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number];
    expect({ code, output }).toEqual({ code: 0, output: 'true\n' });
  });
});
