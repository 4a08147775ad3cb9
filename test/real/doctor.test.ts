import { expect, it, onTestFinished } from 'vitest';
import type { Report } from '../../lib/cli/doctor.js';
import { runCli } from '../support/cli.js';
import { RealZooKeeper } from '../support/real-zookeeper.js';
import { digestLogin, SaslServer } from '../support/sasl-servers.js';

it('doctor reports a server that requires SASL as one that it cannot use', async () => {
  await using required = await SaslServer.start(digestLogin({ shop: 'secret' }), {
    config: { requireClientAuthScheme: 'sasl', sessionRequireClientSASLAuth: true },
  });
  const { code, out } = await runCli(['doctor', '--json'], { ZOOKEEPER: required.connectString });
  expect(code).toBe(2);
  const { checks } = JSON.parse(out) as Report;
  expect(checks).toMatchObject([
    { check: 'server', message: expect.stringContaining('only clients that authenticate') },
    { check: 'quorum', status: 'unsafe' },
  ]);
});

it.each(['srvr', 'ruok'])('doctor reports a single server that answers %s', async (word) => {
  const server = await RealZooKeeper.start({
    config: { '4lw.commands.whitelist': word },
  });
  onTestFinished(() => server.dispose());
  const { code, out } = await runCli(['doctor', '--json'], {
    ZOOKEEPER: `127.0.0.1:${server.port}`,
  });
  expect(code).toBe(1);
  const { checks } = JSON.parse(out) as Report;
  expect(checks.filter(({ status }) => status === 'limit')).toEqual([
    expect.objectContaining({
      check: 'quorum',
      message: expect.stringContaining('a single server'),
    }),
  ]);
});
