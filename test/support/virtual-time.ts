import { setSafeTimers } from '@vitest/utils/timers';
import type { SimulatedProcess, World } from 'nestjs-zookeeper/testing';
import { simulate } from 'nestjs-zookeeper/testing';
import * as vitest from 'vitest';
import { copiedServer, isSimulated } from './environment.js';

/*
 * Vitest's functions for tests that wait. On the simulated server each test runs with its hooks in a simulation of its
 * own: a wait of 30 seconds takes a millisecond, and a busy machine changes nothing. On the other servers they are
 * Vitest's own functions.
 */

type Body = () => unknown;
type Each = (name: string, body: (...args: never[]) => unknown) => void;
interface Test {
  (name: string, body: Body): void;
  each(cases: readonly unknown[]): Each;
  runIf(condition: unknown): Test;
  skipIf(condition: unknown): Test;
}

let running: { readonly world: World; readonly process: SimulatedProcess } | undefined;
/** The hooks of the next test, which Vitest's own hooks collect: test files share this module. */
let next = nothing();

function nothing() {
  return { before: [] as Body[], after: [] as Body[] };
}

/** Returns the simulation of the running test. */
export function currentWorld(): World {
  return current().world;
}

/** Returns the process in which the running test and its hooks run. */
export function testProcess(): SimulatedProcess {
  return current().process;
}

function current() {
  if (!running) throw new Error('only a test or its hooks have a simulation');
  return running;
}

async function inSimulation(body: Body): Promise<void> {
  const { before, after } = next;
  next = nothing();
  const withHooks = async () => {
    const errors: unknown[] = [];
    const run = async (step: Body) => {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    };
    await run(async () => {
      for (const hook of before) await hook();
      await body();
    });
    for (const hook of after) await run(hook);
    // Later errors are consequences of the first one.
    if (errors.length > 0) throw errors[0];
  };
  try {
    await simulate({ seed: 1, server: copiedServer }, async (world) => {
      running = { world, process: world.process('test') };
      // expect.poll() and vi.waitFor() use the timers that Vitest stores here.
      setSafeTimers();
      await running.process.run(withHooks);
    });
  } finally {
    running = undefined;
    setSafeTimers();
  }
}

function simulated(test: vitest.TestAPI): Test {
  const run = (name: string, body: Body) => test(name, () => inSimulation(body));
  return Object.assign(run, {
    each:
      (cases: readonly unknown[]): Each =>
      (name, body) =>
        test.each(cases as unknown[])(name, (...args: unknown[]) =>
          inSimulation(() => body(...(args as never[]))),
        ),
    runIf: (condition: unknown) => simulated(test.runIf(condition) as vitest.TestAPI),
    skipIf: (condition: unknown) => simulated(test.skipIf(condition) as vitest.TestAPI),
  });
}

export const it = (isSimulated ? simulated(vitest.it) : vitest.it) as vitest.TestAPI;

/** As in Vitest, hooks run before each test in the order of their registration. */
export const beforeEach = (
  isSimulated
    ? (hook: Body) => vitest.beforeEach(() => void next.before.push(hook))
    : vitest.beforeEach
) as (hook: Body) => void;

/** As in Vitest, hooks run after each test in the reverse order of their registration. */
export const afterEach = (
  isSimulated
    ? (hook: Body) => vitest.beforeEach(() => void next.after.unshift(hook))
    : vitest.afterEach
) as (hook: Body) => void;
