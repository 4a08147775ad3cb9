import nodeCrypto, { randomUUID } from 'node:crypto';
import nodeTimers, { setTimeout as startTimer } from 'node:timers';
import nodeTimersPromises, { setTimeout as sleep } from 'node:timers/promises';

/**
 * Checks that functions which this module imports by name from Node's modules are the replaced ones. Test runners that
 * load modules into a context of `node:vm` give them copies of Node's modules, which a simulation cannot replace. The
 * library and the code under test would then use real timers.
 *
 * @throws Error that names the test runners to use
 */
export function checkImportsReplaced(): void {
  if (
    sleep === nodeTimersPromises.setTimeout &&
    startTimer === nodeTimers.setTimeout &&
    randomUUID === nodeCrypto.randomUUID
  ) {
    return;
  }
  throw new Error(
    "simulate: the test runner gives modules copies of Node's builtin modules, so their timers and random numbers cannot be replaced; with Vitest, set the option `pool` to 'forks' or 'threads' instead of 'vmForks' or 'vmThreads'; with Jest, run simulations by Vitest or node:test instead",
  );
}
