import { spawn } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { simulate, SimulationError, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';

const realTimeout = globalThis.setTimeout;

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
      /^simulation with seed 77 failed after 10\.\d{3} virtual ms: two holders$/,
    );
    expect(error).toMatchObject({ seed: 77, cause, digest: /^[\da-f]{16}$/ });
    expect(error.trace).toEqual([{ at: error.at, process: 'scenario', event: 'look here' }]);
    expect(error.at).toBeCloseTo(10, 1);
  });

  it.each<[string, (cause: Error) => void]>([
    ['a rejection that nobody handles', (cause) => void Promise.reject(cause)],
    [
      'an error in a timer',
      (cause) => {
        setTimeout(() => {
          throw cause;
        });
      },
    ],
    [
      'an error in a tick',
      (cause) => {
        process.nextTick(() => {
          throw cause;
        });
      },
    ],
    [
      'an error in a microtask',
      (cause) => {
        queueMicrotask(() => {
          throw cause;
        });
      },
    ],
  ])('carries the seed of %s', async (_, act) => {
    const cause = new Error('unexpected');
    const error = await failure(async (world) => {
      await world.process('a').run(() => act(cause));
      await never;
    });
    expect(error).toMatchObject({ seed: 77, cause });
  });

  it.each<[string, RegExp, () => unknown]>([
    ['a file', /real I\/O \(FSREQ/, () => readFile('package.json')],
    [
      'a socket',
      /real I\/O \(TCP/,
      () => new Promise((resolve) => connect(9, '127.0.0.1').on('error', resolve)),
    ],
    ['the DNS', /real I\/O \(GETADDRINFO/, () => lookup('localhost')],
    [
      'a child process',
      /real I\/O \(P(IPE|ROCESS)/,
      () => new Promise((resolve) => spawn(process.execPath, ['-v']).on('exit', resolve)),
    ],
    [
      'a thread',
      /real I\/O \(WORKER/,
      () => new Promise((resolve) => new Worker('', { eval: true }).on('exit', resolve)),
    ],
  ])('says that it waited for %s', async (_, message, start) => {
    const error = await failure((world) => world.process('a').run(start));
    expect(error.message).toMatch(message);
    expect(error.message).toContain('which virtual time cannot wait for');
    expect((error.cause as Error).stack).toContain('failures.test.ts');
  });

  it.each<[string, () => unknown]>([
    ['something that never comes', () => never],
    ['a real timer', () => new Promise((resolve) => realTimeout(resolve, 60_000).unref())],
  ])('ends at its limit where it waits for %s', async (_, wait) => {
    const error = await failure(wait, { limit: 60_000 });
    expect(error.message).toContain('did not end within its limit of 60000 virtual milliseconds');
  });

  it('ends where an event loop turns forever', async () => {
    const again = () => void setImmediate(again);
    const error = await failure(async (world) => {
      const process = world.process('a');
      await process.client();
      await process.run(again);
      return never;
    });
    expect(error.message).toContain('repeats itself forever');
  });

  it('restores what it replaced after a failure, and lets the next simulation start', async () => {
    const { setTimeout, Date: realDate } = globalThis;
    await failure(() => {
      throw new Error('at once');
    });
    expect(globalThis).toMatchObject({ setTimeout, Date: realDate });
    await simulate({ seed: 1 }, () => pause(10));
  });
});
