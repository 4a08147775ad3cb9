import { expect, it } from 'vitest';
import type { Report } from '../../lib/cli/doctor.js';
import { runCli } from '../support/cli.js';
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
