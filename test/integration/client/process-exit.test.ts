import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { useCompiledClient } from '../../support/compiled-client.js';
import { useLinks } from '../../support/link.js';
import { useServer } from '../../support/servers.js';

const zk = useServer();
const link = useLinks(zk);
const compiled = useCompiledClient();

describe('a process', () => {
  const program = (body: string) => `
    import { ZkClient } from './index.js';
    const client = new ZkClient({ connectString: process.env.ZK, sessionTimeout: 10_000 });
    ${body}`;

  test('exits by itself after close(), and the client has printed nothing', async () => {
    const way = await link();
    const running = compiled.run(
      program(`
        await client.connect();
        await client.exists('/');
        const back = new Promise((done) => client.onState(({ state }) => state === 'RECONNECTED' && done()));
        console.log('connected');
        await back;
        await client.close();
        console.log('closed');`),
      { ZK: way.connectString },
      (line) => void (line === 'connected' && way.cut()),
    );
    expect(await running).toEqual({
      code: 0,
      signal: null,
      stdout: 'connected\nclosed\n',
      stderr: '',
    });
  });

  test('stays alive while its client waits for a server', async () => {
    const way = await link();
    await way.down();
    const running = compiled.run(
      program(`
        await client.connect();
        console.log(await client.exists('/') ? 'there' : 'not there');
        await client.close();`),
      { ZK: way.connectString },
    );
    await delay(600);
    await way.up();
    expect(await running).toMatchObject({ code: 0, stdout: 'there\n', stderr: '' });
  });

  test('has no open handle after two hundred clients', async () => {
    const outcome = await compiled.run(
      `
      import { ZkClient } from './index.js';
      import { readdirSync } from 'node:fs';
      const descriptors = () => readdirSync('/proc/self/fd').length;
      const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
      let before;
      const handles = () => process.getActiveResourcesInfo().filter((name) => !/Pipe|TTY/.test(name));
      const left = () => [descriptors() - before, ...handles()].join();
      for (let i = 0; i < 200; i++) {
        const client = new ZkClient({ connectString: process.env.ZK });
        await client.connect();
        await client.exists('/');
        await client.close();
        if (i === 4) await pause().then(() => (before = descriptors()));
      }
      for (let i = 0; i < 200 && left() !== '0'; i++) await pause();
      console.log(left());`,
      { ZK: zk.connectString },
    );
    expect(outcome).toEqual({ code: 0, signal: null, stdout: '0\n', stderr: '' });
  });
});
