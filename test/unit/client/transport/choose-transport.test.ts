import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runProgram } from '../../../support/compiled-client.js';
import { refusal } from '../../../support/refusal.js';
import { ScriptedServer } from '../../../support/scripted-server.js';

const OPEN = [{ scheme: 'world', id: 'anyone', permissions: 'cdrwa' }];

describe('the options of the transport', () => {
  test.each([['Wire'], [''], [null], [1], [{}], [Symbol('t')]])('transport rejects %o', (name) => {
    expect(refusal({ transport: name }).message).toMatch(/^transport must be 'native' or 'wire'/);
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
    },
  );

  test.each([
    ['cert', 'no certificate'],
    ['key', 'no key'],
    ['minVersion', 'TLSv9'],
  ])('tls.%s is rejected if Node rejects it, without a secret in the message', (name, value) => {
    const { option, message } = refusal({ tls: { [name]: value } });
    expect(option).toBe('tls');
    expect(message).not.toContain('no key');
  });
});

describe('the choice of the transport', () => {
  let server: ScriptedServer;
  beforeAll(async () => {
    server = await ScriptedServer.start({ onRequest: (peer, { xid }) => peer.reply(xid) });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  /** Runs a program in a process of its own, as if the native package could not be loaded. */
  async function run(body: string, variable = ''): Promise<string> {
    const { code, stdout, stderr } = await runProgram(
      `
      import Module from 'node:module';
      const load = Module._load;
      Module._load = (name, ...rest) => {
        if (process.env.WITHOUT && name === 'zookeeper') throw new Error('not built');
        return load(name, ...rest);
      };
      const warnings = [];
      process.removeAllListeners('warning');
      process.on('warning', ({ code, message }) => warnings.push(code + ': ' + message));
      const { ZkClient } = await import('./index.js');
      const open = async (options) => {
        const client = new ZkClient({ connectString: '127.0.0.1:${server.port}', ...options });
        await client.connect();
        return client;
      };
      ${body}`,
      { WITHOUT: '1', NESTJS_ZOOKEEPER_TRANSPORT: variable },
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout.trim();
  }

  test('of native fails at the start if the package cannot be loaded, and the error says what to do', async () => {
    const output = await run(`
      const error = await open({ transport: 'native' }).catch((error) => error);
      console.log(error.name, error.message, error.cause.cause.message);`);
    expect(output).toMatch(
      /^BadOptionError transport must be 'wire', or left out, because the npm package `zookeeper` cannot be loaded \(.*python3, make and g\+\+\), but is "native" not built$/,
    );
  });

  test('falls back to wire by default, with one warning for all clients, and none if it was chosen', async () => {
    const output = await run(`
      const chosen = await open({ transport: 'wire' });
      await chosen.close();
      await new Promise(setImmediate);
      if (warnings.length > 0) console.log('chosen, but warned');
      const clients = [await open(), await open()];
      for (const client of clients) await client.close();
      await new Promise(setImmediate);
      console.log(clients.map((client) => client.transport).join(), warnings.length, warnings[0]);`);
    expect(output).toMatch(/^wire,wire 1 ZK_WIRE_TRANSPORT: the wire transport is used, because /);
  });

  test('by the environment variable applies only if the option is omitted', async () => {
    const output = await run(
      `
      const client = await open();
      await client.close();
      const error = await open({ transport: 'native' }).catch((error) => error);
      console.log(client.transport, error.name, warnings.length);`,
      'wire',
    );
    expect(output).toBe('wire BadOptionError 0');
  });

  test('is wire with an ACL, which native cannot set', async () => {
    const output = await run(
      `
      const client = await open({ acl: ${JSON.stringify(OPEN)} });
      await client.close();
      console.log(client.transport);`,
      'native',
    );
    expect(output).toBe('wire');
  });

  test('by an environment variable with an unknown name is rejected', async () => {
    const output = await run(
      `console.log((await open().catch((error) => error)).message);`,
      'carrier-pigeon',
    );
    expect(output).toBe(
      `NESTJS_ZOOKEEPER_TRANSPORT must be 'native' or 'wire', but is "carrier-pigeon"`,
    );
  });
});
