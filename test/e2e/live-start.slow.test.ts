import { once } from 'node:events';
import net from 'node:net';
import { expect, it } from 'vitest';
import { startCommand } from '../support/command.js';

it('a server of the live page that cannot listen says so in one line', async () => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  const { ended } = startCommand('dist-sample/main.js', [], { ...process.env, PORT: String(port) });
  expect(await ended).toMatchObject({
    ...{ code: 1, stdout: '' },
    stderr: `The shop did not start: port ${port} is in use: set PORT to another one\n`,
  });
  server.close();
});

it('a server of the live page without ZooKeeper says so in one line', async () => {
  const env = { ...process.env, PORT: '0', ZOOKEEPER: '127.0.0.1:1' };
  const { code, stdout, stderr } = await startCommand('dist-sample/main.js', [], env).ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^The shop did not start: .*127\.0\.0\.1:1\b.*\n$/);
});
