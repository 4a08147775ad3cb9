import { describe, expect, test } from 'vitest';
import { BadOptionError, ZkClient } from '../../../../lib/client/index.js';
import { connectInBackground } from '../../../../lib/client/zk-client.js';
import { checkTls } from '../../../../lib/client/transport/tls.js';
import { runProgram } from '../../../support/compiled-client.js';
import { refusal } from '../../../support/refusal.js';
import { ScriptedServer } from '../../../support/scripted-server.js';

const OPEN = [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }];

describe('the options of the transport', () => {
  test.each([['Wire'], [''], [null], [1], [{}], [Symbol('t')]])('transport rejects %o', (name) => {
    expect(refusal({ transport: name }).message).toMatch(/^transport must be 'wire' or 'native'/);
  });

  test.each([[null], [true], ['ca.pem'], [[]]])('tls rejects %o', (tls) => {
    expect(refusal({ tls }).option).toBe('tls');
  });

  test.each([
    ['tls', {}],
    ['acl', OPEN],
  ])(
    '%s with native is rejected, and the error names the transport that supports it',
    (name, value) => {
      const { message } = refusal({ transport: 'native', [name]: value });
      expect(message).toBe(
        `transport must be 'wire' with ${name}, which native does not support, but is "native"`,
      );
    },
  );

  test.each(['host', 'port', 'path', 'socket', 'lookup'])(
    'tls.%s is rejected in favour of the connect string',
    (name) => {
      const error = refusal({ tls: { [name]: 'x' } });
      expect(error.option).toBe(`tls.${name}`);
      expect(error.message).toContain('connectString');
      expect(refusal({ tls: { [name]: null } }).option).toBe(`tls.${name}`);
    },
  );

  test('tls may have options that are undefined', () => {
    const tls = { host: undefined, port: undefined, servername: undefined, ca: undefined };
    expect(Object.keys(checkTls(tls))).toEqual(['secureContext']);
  });

  test.each([
    ['cert', 'no certificate'],
    ['key', 'no key'],
    ['minVersion', 'TLSv9'],
  ])('tls.%s is rejected if Node rejects it, without a secret in the message', (name, value) => {
    const { option, message } = refusal({ tls: { [name]: value } });
    expect(option).toBe('tls');
    expect(message).toMatch(/\(Node refuses them with ERR_[A-Z_]+\)/);
    expect(message).not.toContain(value);
  });
});

test("the transport is 'wire' by default", async () => {
  await using server = await ScriptedServer.start({
    onRequest: (peer, { xid }) => peer.reply(xid),
  });
  const client = new ZkClient({ connectString: `127.0.0.1:${server.port}` });
  expect(client.transport).toBe('wire');
  await client.connect();
  await client.close();
});

test('native is refused at the start if its package cannot be loaded, with the command that installs it', async () => {
  const { code, stdout, stderr } = await runProgram(
    `
    import Module from 'node:module';
    const load = Module._load;
    Module._load = (name, ...rest) => {
      if (name === 'zookeeper') throw new Error('not installed');
      return load(name, ...rest);
    };
    const { ZkClient } = await import('./index.js');
    const client = new ZkClient({ connectString: '127.0.0.1:1', transport: 'native' });
    const error = await client.connect().catch((error) => error);
    console.log(error.name, error.option, error.message, error.cause.message);`,
    {},
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.trim()).toBe(
    "BadOptionError transport transport is 'native', but the npm package `zookeeper` cannot be loaded: run `npm install zookeeper`, and approve its install script if npm asks. It needs python3, make and g++. Or leave transport out not installed",
  );
});

test('a transport that cannot be loaded is the cause of the error of a call, if the client connects in the background', async () => {
  const cause = new BadOptionError('transport', 'native', 'installed');
  const retry = { type: 'fixed', delay: 10, maxRetries: 2 } as const;
  const client = new ZkClient({ connectString: '127.0.0.1:1', retry }, async () => {
    throw cause;
  });
  connectInBackground(client);
  await expect(client.exists('/')).rejects.toMatchObject({ code: 'CONNECTION', cause });
  await expect(client.connect()).rejects.toMatchObject({ code: 'CONNECTION', cause });
  await client.close();
});
