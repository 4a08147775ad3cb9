import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { CreateFlag, OpCode, ReadRequest } from '../../../lib/protocol/index.js';
import { RawClient } from '../../support/raw-client.js';
import { create, exists } from '../../support/raw-requests.js';
import { fourLetterWord } from '../../support/real-zookeeper.js';

describe('The embedded server’s four-letter words', () => {
  let server: EmbeddedZooKeeper;
  let client: RawClient;
  const ask = (word: string) => fourLetterWord(server.port, word);

  beforeAll(async () => {
    server = await EmbeddedZooKeeper.start({ tickTime: 500, fourLetterWords: ['*'] });
    client = await RawClient.connect({ port: server.port, timeout: 8000 });
    await create(client, '/e', CreateFlag.ephemeral);
    await exists(client, '/e', true);
    await client.request(OpCode.getChildren, ReadRequest, { path: '/', watch: true });
  });
  afterAll(() => server.stop());

  test('ruok and isro report that it serves', async () => {
    expect(await ask('ruok')).toBe('imok');
    expect(await ask('isro')).toBe('rw');
  });

  test('srvr and stat describe the server', async () => {
    const zxid = (await client.ping()).zxid.toString(16);
    const srvr = await ask('srvr');
    expect(srvr).toMatch(/^Zookeeper version: 3\.8\./);
    for (const line of [/Received: \d+/, /Connections: \d/, /Mode: standalone/, /Node count: 6/]) {
      expect(srvr).toMatch(line);
    }
    expect(srvr).toContain(`Zxid: 0x${zxid}`);
    expect(await ask('stat')).toMatch(/Clients:\n \/127\.0\.0\.1:\d+\[1\]\(queued=0,recved=\d+/);
  });

  test('cons lists the connections', async () => {
    const own = (await ask('cons')).split('\n').find((line) => line.includes(client.sessionIdHex));
    expect(own).toContain(`:${client.socket.localPort}[1](`);
    expect(own).toMatch(/recved=(\d+),sent=\1,sid=0x[0-9a-f]+,est=\d{13},to=8000\)$/);
  });

  test('mntr counts', async () => {
    const values = new Map(
      (await ask('mntr')).split('\n').map((l) => l.split('\t') as [string, string]),
    );
    expect(Object.fromEntries(values)).toMatchObject({
      zk_server_state: 'standalone',
      zk_znode_count: '6',
      zk_ephemerals_count: '1',
      zk_watch_count: '2',
      zk_global_sessions: '1',
    });
  });

  test('wchs counts watches, and dump lists the ephemeral nodes of each session', async () => {
    expect(await ask('wchs')).toBe('1 connections watching 1 paths\nTotal watches:1\n');
    const dump = await ask('dump');
    expect(dump).toContain(`Sessions with Ephemerals (1):\n0x${client.sessionIdHex}:\n\t/e\n`);
    expect(dump).toContain(`\tip: /127.0.0.1:${client.socket.localPort} sessionId: 0x`);
  });

  test('conf and envi list its settings', async () => {
    expect(await ask('conf')).toContain(`clientPort=${server.port}\ntickTime=500\n`);
    expect(await ask('envi')).toMatch(/^Environment:\nzookeeper\.version=3\.8\./);
  });

  test('are those of the real server’s default whitelist, unless others are allowed', async () => {
    await using other = await EmbeddedZooKeeper.start();
    expect(await fourLetterWord(other.port, 'srvr')).toContain('Mode: standalone');
    expect(await fourLetterWord(other.port, 'ruok')).toBe(
      'ruok is not executed because it is not in the whitelist.\n',
    );
  });
});
