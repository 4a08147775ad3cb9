import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BadOptionError, ZkClient } from '../../../../lib/client/index.js';
import { useCompiledClient } from '../../../support/compiled-client.js';
import { ScriptedServer } from '../../../support/scripted-server.js';

const connectString = '127.0.0.1:2181';

const refusal = (options: object): BadOptionError => {
  try {
    new ZkClient({ connectString, ...options } as never);
  } catch (error) {
    expect(error).toBeInstanceOf(BadOptionError);
    return error as BadOptionError;
  }
  throw new Error('nothing was refused');
};

describe('the options of the transport', () => {
  test.each([['Wire'], [''], [null], [1], [{}], [Symbol('t')]])(
    'transport cannot be %o',
    (name) => {
      expect(refusal({ transport: name }).message).toMatch(/^transport must be 'native' or 'wire'/);
    },
  );

  test.each([[null], [true], ['ca.pem'], [[]]])('tls cannot be %o', (tls) => {
    expect(refusal({ tls }).option).toBe('tls');
  });

  test('tls with native is refused, naming the one that can', () => {
    const { message } = refusal({ transport: 'native', tls: {} });
    expect(message).toBe(
      `transport must be 'wire' with tls, which native does not support, but is "native"`,
    );
  });

  test.each(['host', 'port', 'path', 'socket', 'lookup'])(
    'tls.%s is the connect string’s',
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
  ])(
    'tls.%s that Node does not take is refused at once, without a secret in the message',
    (name, value) => {
      const { option, message } = refusal({ tls: { [name]: value } });
      expect(option).toBe('tls');
      expect(message).not.toContain('no key');
    },
  );
});

describe('the choice of the transport', () => {
  const compiled = useCompiledClient();
  let server: ScriptedServer;
  beforeAll(async () => {
    server = await ScriptedServer.start({ onRequest: (peer, { xid }) => peer.reply(xid) });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  /** In a process of its own, on a machine where the native package was not built. */
  async function run(body: string, variable = ''): Promise<string> {
    const { code, stdout, stderr } = await compiled.run(
      `
      import { register } from 'node:module';
      if (process.env.WITHOUT) register('data:text/javascript,' + encodeURIComponent(\`
        export async function resolve(specifier, context, next) {
          if (specifier === 'zookeeper') throw new Error('not built');
          return next(specifier, context);
        }\`));
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

  test('that names native is an error at the start where it cannot be loaded, and says what to do', async () => {
    const output = await run(`
      const error = await open({ transport: 'native' }).catch((error) => error);
      console.log(error.name, error.message, error.cause.cause.message);`);
    expect(output).toMatch(
      /^BadOptionError transport must be 'wire', or left out, because the npm package `zookeeper` cannot be loaded \(.*python3, make and g\+\+\), but is "native" not built$/,
    );
  });

  test('that is left out falls back to wire, with one warning for all clients', async () => {
    const output = await run(`
      const clients = [await open(), await open()];
      for (const client of clients) await client.close();
      await new Promise(setImmediate);
      console.log(clients.map((client) => client.transport).join(), warnings.length, warnings[0]);`);
    expect(output).toMatch(/^wire,wire 1 ZK_WIRE_TRANSPORT: the wire transport is used, because /);
  });

  test('that names wire needs no package and warns of nothing', async () => {
    const output = await run(`
      const client = await open({ transport: 'wire' });
      await client.close();
      console.log(client.transport, warnings.length);`);
    expect(output).toBe('wire 0');
  });

  test('by the environment holds where the option is left out, and only there', async () => {
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

  test('by an environment that names none there is refused', async () => {
    const output = await run(
      `console.log((await open().catch((error) => error)).message);`,
      'carrier-pigeon',
    );
    expect(output).toBe(
      `NESTJS_ZOOKEEPER_TRANSPORT must be 'native' or 'wire', but is "carrier-pigeon"`,
    );
  });
});
