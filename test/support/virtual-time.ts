import { setSafeTimers } from '@vitest/utils/timers';
import { simulate, type SimulatedProcess, type World } from 'nestjs-zookeeper/testing';
import * as vitest from 'vitest';
import { copiedServer, isSimulated } from './environment.js';

/*
 * Vitest's functions for tests that wait. On the simulated server each test runs with its hooks in a simulation of its
 * own: a wait of 30 seconds takes a millisecond, and a busy machine changes nothing. On the other servers they are
 * Vitest's own functions.
 */

type Body = () => unknown;

/** The part of Vitest's `it` that both kinds of tests have: no test context, no timeout of a single test. */
interface TestFunction {
  (name: string, body: Body): void;
  each: {
    <T extends readonly unknown[] | readonly [unknown]>(
      cases: readonly T[],
    ): (name: string, body: (...args: [...T]) => void) => void;
    <T>(cases: readonly T[]): (name: string, body: (value: T) => void) => void;
  };
}

/** The seed of all simulations. */
const seed = Number(process.env.TEST_SEED ?? 1);

let running: { readonly world: World; readonly process: SimulatedProcess } | undefined;
/** The hooks of a test, which Vitest's own hooks collect. */
const hooks = new WeakMap<object, { readonly before: Body[]; readonly after: Body[] }>();

function hooksOf(test: object) {
  const found = hooks.get(test) ?? { before: [], after: [] };
  hooks.set(test, found);
  return found;
}

/** Returns the simulation of the running test. */
export function currentWorld(): World {
  return current().world;
}

/** Virtual milliseconds. A test that does something after each of them meets each moment of an acquire or a release. */
export const MOMENTS = Array.from({ length: 41 }, (_, index) => index / 4);

/** Returns the process in which the running test and its hooks run. */
export function testProcess(): SimulatedProcess {
  return current().process;
}

function current() {
  if (!running) throw new Error('only a test or its hooks have a simulation');
  return running;
}

async function inSimulation(test: object, body: Body): Promise<void> {
  const { before, after } = hooksOf(test);
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
    if (errors.length > 1) {
      throw new AggregateError(errors, errors.map(String).join('; then '), { cause: errors[0] });
    }
    if (errors.length > 0) throw errors[0];
  };
  try {
    await simulate({ seed, server: copiedServer }, async (world) => {
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

function simulated(test: ReturnType<vitest.TestAPI['runIf']>): TestFunction {
  const run = (name: string, body: Body) => test(name, ({ task }) => inSimulation(task, body));
  // Unlike test.each(), test.for() passes the test to its body.
  const each = (cases: readonly unknown[]) => (name: string, body: (...args: never[]) => unknown) =>
    test.for(cases)(name, (values, { task }) => {
      const args = (Array.isArray(values) ? values : [values]) as never[];
      return inSimulation(task, () => body(...args));
    });
  return Object.assign(run, { each }) as TestFunction;
}

export const it: TestFunction & { runIf(condition: unknown): TestFunction } = isSimulated
  ? Object.assign(simulated(vitest.it), {
      runIf: (condition: unknown) => simulated(vitest.it.runIf(condition)),
    })
  : vitest.it;

/** As in Vitest, hooks run before each test in the order of their registration. */
export const beforeEach: (hook: Body) => void = isSimulated
  ? (hook) => vitest.beforeEach(({ task }) => void hooksOf(task).before.push(hook))
  : vitest.beforeEach;

/** As in Vitest, hooks run after each test in the reverse order of their registration. */
export const afterEach: (hook: Body) => void = isSimulated
  ? (hook) => vitest.beforeEach(({ task }) => void hooksOf(task).after.unshift(hook))
  : vitest.afterEach;
