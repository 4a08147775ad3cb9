import { spawn } from 'node:child_process';
import { createHash, generateKeyPair, pbkdf2, pbkdf2Sync } from 'node:crypto';
import { type EventEmitter, once } from 'node:events';
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { readFileSync, watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import { performance, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { createGzip, gunzipSync, gzip, gzipSync } from 'node:zlib';
import { ZkClient } from 'nestjs-zookeeper';
import { simulate, SimulationError, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

const { setTimeout: realTimeout, setImmediate: realImmediate } = globalThis;

async function failure(
  scenario: (world: World) => unknown,
  options = {},
): Promise<SimulationError> {
  const error: unknown = await simulate({ seed: 77, ...options }, scenario).catch(
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(SimulationError);
  return error as SimulationError;
}

/** Sends a query to a DNS server that does not exist. */
function dnsQuery(): void {
  const resolver = new Resolver({ timeout: 1, tries: 1 });
  resolver.setServers(['127.0.0.1:9']);
  resolver.resolve4('localhost', () => {});
}

async function lateGzip(): Promise<never> {
  const stream = createGzip();
  await pause(10);
  stream.end('text');
  return never;
}

/** Unlike once(), this does not reject at an error. */
const event = (emitter: EventEmitter, name: string) =>
  new Promise((resolve) => emitter.on(name, resolve));

const never = new Promise<never>(() => {});

describe('a simulation that fails', () => {
  it('rejects with the seed, the virtual time, the digest, the trace and the cause', async () => {
    const cause = new Error('two holders');
    const error = await failure(async (world) => {
      await world.sleep(10);
      world.note('look here');
      throw cause;
    });
    expect(error.message).toMatch(
      /^simulation with seed 77 failed after 10\.\d{3} virtual ms: two holders\n/,
    );
    expect(error).toMatchObject({ seed: 77, cause, digest: /^[\da-f]{16}$/ });
    expect(error.trace).toEqual([{ at: error.at, process: 'scenario', event: 'look here' }]);
    expect(error.at).toBeCloseTo(10, 1);
  });

  it('lists the last eight entries of the trace in its message, one line each', async () => {
    const error = await failure(async (world) => {
      const process = world.process('a');
      for (let ms = 1; ms <= 9; ms++) {
        await world.sleep(1);
        if (ms % 2 === 0) process.resume();
        else process.pause();
      }
      world.note('two\nlines');
      throw new Error('two holders');
    });
    const [first, ...lines] = error.message.split('\n');
    expect(first).toMatch(
      /^simulation with seed 77 failed after 9\.\d{3} virtual ms: two holders$/,
    );
    expect(lines).toHaveLength(9);
    expect(lines[0]).toBe('The last entries of the trace:');
    expect(lines[1]).toMatch(/^ {2}3\.\d{3} ms {2}a: paused$/);
    expect(lines[7]).toMatch(/^ {2}9\.\d{3} ms {2}a: paused$/);
    expect(lines[8]).toMatch(/^ {2}9\.\d{3} ms {2}scenario: two lines$/);
  });

  const throwing = (cause: Error) => () => {
    throw cause;
  };
  it.each<[string, (cause: Error) => void]>([
    ['an unhandled rejection', (cause) => void Promise.reject(cause)],
    ['an error in a timer', (cause) => void setTimeout(throwing(cause))],
    ['an error in a tick', (cause) => process.nextTick(throwing(cause))],
    ['an error in a microtask', (cause) => queueMicrotask(throwing(cause))],
  ])('has the seed and the cause: %s', async (_, act) => {
    const cause = new Error('unexpected');
    const error = await failure(async (world) => {
      await world.process('a').run(() => act(cause));
      await never;
    });
    expect(error).toMatchObject({ seed: 77, cause });
  });

  it.each<[string, () => unknown]>([
    ['a file (FSREQ', () => readFile('package.json')],
    ['a file watcher (FSEVENTWRAP)', () => watch('package.json').close()],
    ['a socket (TCPWRAP)', () => event(connect(9, '127.0.0.1'), 'error')],
    ['a UDP socket (UDPWRAP)', () => void createSocket('udp4').close()],
    ['a pipe (PIPEWRAP)', () => event(connect('/nowhere'), 'error')],
    ['a name look-up (GETADDRINFOREQWRAP)', () => lookup('localhost')],
    ['a name look-up (QUERYWRAP)', () => void dnsQuery()],
    ['a child process (PROCESSWRAP)', () => event(spawn(process.execPath, ['-v']), 'exit')],
    ['a worker thread (WORKER)', () => event(new Worker('', { eval: true }), 'exit')],
    ['a message port (MESSAGEPORT)', () => void new MessageChannel().port1.close()],
    ['a timer of the real event loop (Timeout)', () => new Promise((end) => realTimeout(end, 1))],
    ['a timer of the real event loop (Immediate)', () => new Promise(realImmediate)],
    ['compression (ZLIB)', () => promisify(gzip)('text')],
    ['compression (ZLIB)', () => lateGzip()],
    ['cryptography (PBKDF2REQUEST)', () => promisify(pbkdf2)('password', 'salt', 1, 20, 'sha1')],
    ['cryptography (KEYPAIRGENREQUEST)', () => promisify(generateKeyPair)('ed25519')],
    ['cryptography (HASHREQUEST)', () => crypto.subtle.digest('SHA-256', Buffer.from('text'))],
  ])('names %s, and the code that started it', async (what, start) => {
    const error = await failure((world) => world.process('a').run(start));
    expect(error.message).toContain(`the code under test started real I/O, ${what}`);
    expect(error.message).toContain(', which virtual time cannot');
    expect((error.cause as Error).stack).toContain('failures.test.ts');
  });

  it('names a socket and a worker that were opened before the simulation', async () => {
    // A server that answered would get a reset from a client that has not read the answer.
    const server = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const socket = connect((server.address() as AddressInfo).port);
    await once(socket, 'connect');
    const worker = new Worker('setInterval(() => {}, 1000)', { eval: true });
    await once(worker, 'online');
    const written = await failure(() => void socket.write('hello'));
    expect(written.message).toContain('real I/O, a socket (write()), which');
    const posted = await failure(() => worker.postMessage('hello'));
    expect(posted.message).toContain('real I/O, a worker thread (postMessage()), which');
    await worker.terminate();
    socket.destroy();
    await once(server.close(), 'close');
  });

  it('says how to connect if a client would use a real server', async () => {
    const error = await failure((world) =>
      world.process('a').run(() => new ZkClient({ connectString: '127.0.0.1:9' }).connect()),
    );
    expect(error.message).toMatch(
      /virtual ms: .*connect a ZkModule by process.override\(\), and get a ZkClient from/,
    );
  });

  it('allows output to the console, and timers of Node itself', async () => {
    const observer = new PerformanceObserver(() => {});
    observer.observe({ entryTypes: ['mark'] });
    await simulate({ seed: 77 }, () => {
      console.log('output of a simulation');
      process.stdout.write('');
      performance.mark('a mark');
      new ServerResponse(new IncomingMessage(new Socket())).writeHead(200);
    });
    observer.disconnect();
  });

  it('detects real I/O that starts at the end of the scenario, or that it does not wait for', async () => {
    const atEnd = await failure(() => void readFile('package.json'));
    expect(atEnd.message).toContain('started real I/O');
    const lost = await failure((world) => Promise.race([readFile('package.json'), world.sleep(5)]));
    expect(lost.message).toContain('started real I/O');
  });

  it('has the time at which real I/O started', async () => {
    const error = await failure(async (world) => {
      await world.sleep(10);
      world.note('before');
      const reading = readFile('package.json');
      await world.sleep(1);
      world.note('after');
      await reading;
    });
    expect(error.at).toBeCloseTo(10, 1);
    expect(error.message).toContain('failed after 10.');
    expect(error.message).toContain('before');
    expect(error.message).not.toContain(': after');
    expect(error.trace).toHaveLength(2);
  });

  it('reports real I/O, with another error as the cause of its error', async () => {
    const other = new Error('two holders');
    const error = await failure(() => {
      void readFile('package.json');
      throw other;
    });
    expect(error.message).toContain('started real I/O');
    expect(error.cause).toMatchObject({ cause: other });
  });

  it('allows synchronous reads, compression and cryptography', async () => {
    const { value } = await simulate({ seed: 77 }, async (world) => {
      const packed = gzipSync(readFileSync('package.json'));
      const key = pbkdf2Sync('password', 'salt', 1, 20, 'sha1');
      createHash('sha1').update(key).digest();
      await world.sleep(10);
      return gunzipSync(packed).toString();
    });
    expect(value).toContain('nestjs-zookeeper');
  });

  it('ends at its limit if it waits for a promise that never settles', async () => {
    const error = await failure(() => never, { limit: 60_000 });
    expect(error.message).toContain('did not end within its limit of 60000 virtual milliseconds');
    expect(error.message).toContain('such as a worker thread or a dynamic import()');
    expect(error.message).not.toContain('paused');
  });

  it.each<[string, unknown, string]>([
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 }), '{ a: 1 }'],
    ['an object', { code: 'SOLD_OUT' }, "{ code: 'SOLD_OUT' }"],
    ['nothing', undefined, 'undefined'],
    ['a symbol', Symbol('odd'), 'Symbol(odd)'],
  ])('has the seed if the scenario throws %s', async (_, thrown, shown) => {
    const error = await failure(() => {
      throw thrown;
    });
    expect(error.message).toMatch(/^simulation with seed 77 failed after /);
    expect(error.message).toContain(shown);
    expect(error.cause).toBe(thrown);
  });

  it('names the processes and servers that are paused or busy at its limit', async () => {
    const error = await failure(
      async (world) => {
        for (const name of ['a', 'b', 'c']) world.process(name).pause();
        world.process('d').block(1e9);
        const again = world.process('e');
        again.pause();
        again.resume();
        world.servers[0]!.pause();
        const crashed = world.process('f');
        crashed.pause();
        crashed.crash();
        await never;
      },
      { limit: 60_000 },
    );
    expect(error.message).toContain('; these are paused or busy: a, b, c, d, 10.0.0.1:2181\n');
  });

  it('ends if immediates start one another in an endless loop', async () => {
    const again = () => void setImmediate(again);
    const error = await failure(async (world) => {
      const process = world.process('a');
      await process.client();
      await process.run(again);
      return never;
    });
    expect(error.message).toContain('probably has an endless loop');
  });

  it('restores the globals, so that the next simulation can start', async () => {
    const { setTimeout, Date: realDate } = globalThis;
    const error = await failure(() => {
      throw new Error('at once');
    });
    // The message has one line, because the trace is empty.
    expect(error.message).toMatch(/virtual ms: at once$/);
    expect(globalThis).toMatchObject({ setTimeout, Date: realDate });
    await simulate({ seed: 1 }, () => pause(10));
  });
});
