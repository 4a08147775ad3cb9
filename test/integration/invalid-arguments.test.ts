import { randomInt } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { CoordinationError, MisuseError } from 'nestjs-zookeeper';
import { useClients } from '../support/clients.js';
import {
  type Call,
  clientOn,
  type FuzzTarget,
  recipesOn,
  servicesOn,
} from '../support/fuzz-calls.js';
import { useServer } from '../support/servers.js';
import { beforeEach, it } from '../support/virtual-time.js';

// Callers may pass anything. An invalid argument must be rejected by an error of this library.

const server = useServer();
const connect = useClients(server);
/** Milliseconds. A call that has not settled by then counts as hanging. */
const CALL_TIMEOUT = 20_000;
/** Calls per group. */
const CALLS = process.env.NIGHTLY ? 10_000 : 1_000;
/** Only the nightly run has other arguments each time. */
const seed = process.env.NIGHTLY ? randomInt(2 ** 31) : 1;

const target = {} as FuzzTarget;
beforeEach(async () => {
  target.client = await connect();
  target.root = server.path('fuzz');
});

/** Undoes what a call has acquired or started. */
async function undo(result: unknown): Promise<void> {
  const list = Array.isArray(result) ? result : [result];
  for (const item of list as { release?: () => Promise<void>; watch?: { remove(): void } }[]) {
    if (typeof item?.release === 'function') await item.release();
    item?.watch?.remove?.();
  }
}

async function outcome(call: Call, args: unknown[]): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const result = await Promise.race([
      (async () => call(...(args as never[])))(),
      new Promise((_, reject) => {
        timer = setTimeout(
          reject,
          CALL_TIMEOUT,
          new Error(`not settled within ${CALL_TIMEOUT} ms`),
        );
      }),
    ]);
    await undo(result);
    return undefined;
  } catch (error) {
    const typed = error instanceof CoordinationError || error instanceof MisuseError;
    return typed ? undefined : error;
  } finally {
    clearTimeout(timer);
  }
}

describe.each([
  ['recipes', recipesOn(target)],
  ['client', clientOn(target)],
  ['services and decorators', servicesOn(target)],
])('random arguments for the %s', (_name, entries) => {
  it('are valid or rejected by an error of this library', async () => {
    const call = fc.nat(entries.length - 1).chain((index) => {
      const [, , ...args] = entries[index]!;
      return fc.tuple(fc.constant(index), fc.tuple(...args));
    });
    const failures = new Set<string>();
    for (const [index, args] of fc.sample(call, { numRuns: CALLS, seed })) {
      const [name, entry] = entries[index]!;
      const failure = await outcome(entry, args);
      if (failure !== undefined) failures.add(`${name}: ${inspect(failure).slice(0, 200)}`);
    }
    expect({ seed, failures: [...failures] }).toEqual({ seed, failures: [] });
    expect(target.client.state).toBe('CONNECTED');
  });
});
