import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { normalizeOptions } from '../../../../../lib/client/options.js';
import { runProgram } from '../../../../support/compiled-client.js';
import { refusal } from '../../../../support/refusal.js';

const connectString = '127.0.0.1:2181';
const SECRET = 'hunter2';
const DIGEST = { mechanism: 'DIGEST-MD5', user: 'shop', password: SECRET } as const;

describe('the option sasl', () => {
  test.each([
    ['sasl', null],
    ['sasl', `shop:${SECRET}`],
    ['sasl', [DIGEST]],
    ['sasl.mechanism', {}],
    ['sasl.mechanism', { ...DIGEST, mechanism: 'PLAIN' }],
    ['sasl.mechanism', { mechanism: SECRET }],
    ['sasl.user', { ...DIGEST, user: '' }],
    ['sasl.user', { ...DIGEST, user: [SECRET] }],
    ['sasl.user', { mechanism: 'DIGEST-MD5', password: SECRET }],
    ['sasl.password', { ...DIGEST, password: '' }],
    ['sasl.password', { ...DIGEST, password: `${SECRET}\0` }],
    ['sasl.password', { ...DIGEST, password: [SECRET] }],
    ['passwort', { ...DIGEST, passwort: SECRET }],
    ['password', { mechanism: 'GSSAPI', password: SECRET }],
    ['sasl.service', { mechanism: 'GSSAPI', service: 'zookeeper/zk1' }],
    ['sasl.host', { mechanism: 'GSSAPI', host: 'zk1@EXAMPLE.COM' }],
    ['sasl.host', { mechanism: 'GSSAPI', host: '' }],
    ['sasl.host', { mechanism: 'GSSAPI', host: `${SECRET}@` }],
    ['sasl.principal', { mechanism: 'GSSAPI', principal: 7 }],
    ['sasl.principal', { mechanism: 'GSSAPI', principal: [SECRET] }],
  ])('is rejected with an error for %s without the password: %o', (option, sasl) => {
    const error = refusal({ sasl });
    expect(error.option).toBe(option);
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
  });

  test.each([
    [DIGEST],
    [{ mechanism: 'GSSAPI' }],
    [{ mechanism: 'GSSAPI', service: 'zk', host: 'zk.example.com', principal: 'shop@EXAMPLE.COM' }],
  ])('accepts %o, and shows the password to nobody', async (sasl) => {
    const options = normalizeOptions({ connectString, sasl });
    const mechanism = await options.sasl!();
    const shown = [options, mechanism];
    expect(inspect(shown, { depth: 9, showHidden: true })).not.toContain(SECRET);
    expect(JSON.stringify(shown)).not.toContain(SECRET);
  });

  test('with native is rejected, and the error names the transport that supports it', () => {
    expect(refusal({ transport: 'native', sasl: DIGEST }).message).toBe(
      `transport must be 'wire' with sasl, which native does not support, but is "native"`,
    );
  });
});

describe('sasl.mechanism GSSAPI', () => {
  test('fails at the start if the npm package cannot be loaded, and the error says what to do', async () => {
    const { stdout } = await runProgram(
      `
      import Module from 'node:module';
      import { createServer } from 'node:net';
      const load = Module._load;
      Module._load = (name, ...rest) => {
        if (name === 'kerberos') throw new Error('not built');
        return load(name, ...rest);
      };
      const { ZkClient } = await import('./index.js');
      let connections = 0;
      const server = createServer(() => connections++).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      const client = new ZkClient({
        connectString: '127.0.0.1:' + server.address().port,
        sasl: { mechanism: 'GSSAPI' },
      });
      const error = await client.connect().catch((reason) => reason);
      console.log(error.name, error.option, error.message, error.cause.message, client.transport, connections);
      await client.close();
      server.close();`,
      {},
    );
    expect(stdout.trim()).toMatch(
      /^BadOptionError sasl\.mechanism .*`npm install kerberos`.*but is "GSSAPI" not built wire 0$/,
    );
  });
});
