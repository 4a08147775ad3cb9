import { describe, expect, test } from 'vitest';
import { runProgram } from '../../support/compiled-client.js';
import { useLinks } from '../../support/clients.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const newLink = useLinks(zk);

describe('a process', () => {
  const program = (body: string, options = '') => `
    import { ZkClient } from './index.js';
    const client = new ZkClient({ connectString: process.env.ZK, transport: process.env.ZK_TRANSPORT, sessionTimeout: 10_000, ${options} });
    ${body}`;

  test('exits by itself after close(), and the client has printed nothing', async () => {
    const link = await newLink();
    const running = runProgram(
      program(`
        await client.connect();
        await client.exists('/');
        const back = new Promise((done) => client.onState(({ state }) => state === 'RECONNECTED' && done()));
        console.log('connected');
        await back;
        await client.close();
        console.log('closed');`),
      { ZK: link.connectString },
      (line) => void (line === 'connected' && link.cut()),
    );
    expect(await running).toEqual({
      code: 0,
      signal: null,
      stdout: 'connected\nclosed\n',
      stderr: '',
    });
  });

  test('stays alive while its client waits for a server', async () => {
    const link = await newLink();
    await link.down();
    const running = runProgram(
      // Nothing but the client keeps the process alive while it waits for its next attempt.
      program(
        `
        await client.connect();
        console.log(await client.exists('/') ? 'there' : 'not there');
        await client.close();`,
        `retry: (attempt) => {
          if (attempt === 2) console.log('waiting');
          return 20;
        }`,
      ),
      { ZK: link.connectString },
      (line) => void (line === 'waiting' && link.up()),
    );
    expect(await running).toMatchObject({ code: 0, stdout: 'waiting\nthere\n', stderr: '' });
  });

  test('has no open handle after twenty clients', async () => {
    const outcome = await runProgram(
      `
      import { ZkClient } from './index.js';
      import { readdirSync } from 'node:fs';
      const descriptors = () => readdirSync('/dev/fd').length;
      const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
      let before;
      const handles = () => process.getActiveResourcesInfo().filter((name) => !/Pipe|TTY/.test(name));
      const left = () => [descriptors() - before, ...handles()].join();
      for (let i = 0; i < 20; i++) {
        const client = new ZkClient({ connectString: process.env.ZK, transport: process.env.ZK_TRANSPORT });
        await client.connect();
        await client.exists('/');
        await client.close();
        if (i !== 4) continue;
        while (handles().length > 0) await pause();
        before = descriptors();
      }
      for (let i = 0; i < 200 && left() !== '0'; i++) await pause();
      console.log(left());`,
      { ZK: zk.connectString },
    );
    expect(outcome).toEqual({ code: 0, signal: null, stdout: '0\n', stderr: '' });
  });
});
