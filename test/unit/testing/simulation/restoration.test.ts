import nodeCrypto, {
  randomBytes,
  randomFill,
  randomFillSync,
  randomInt,
  randomUUID,
} from 'node:crypto';
import { performance as nodePerformance } from 'node:perf_hooks';
import timers, { setTimeout as startTimer } from 'node:timers';
import timersPromises, { scheduler, setTimeout as pause } from 'node:timers/promises';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it } from 'vitest';

const names = [
  'setTimeout',
  'setInterval',
  'setImmediate',
  'clearTimeout',
  'clearInterval',
] as const;

/** Returns the current values of everything that a simulation replaces. */
function replacedValues() {
  const properties = (target: object, keys: readonly string[]) =>
    keys.map((key) => Reflect.get(target, key) as unknown);
  return [
    ...properties(globalThis, [...names, 'clearImmediate', 'Date']),
    ...properties(timers, [...names, 'clearImmediate']),
    ...properties(timersPromises, ['setTimeout', 'setImmediate', 'setInterval', 'scheduler']),
    ...properties(nodeCrypto, [
      'randomUUID',
      'randomBytes',
      'randomFill',
      'randomFillSync',
      'randomInt',
    ]),
    ...properties(globalThis.crypto, ['randomUUID', 'getRandomValues']),
    ...properties(nodePerformance, ['now', 'timeOrigin']),
    Math.random,
    AbortSignal.timeout,
    process.hrtime,
    process.uptime,
    // The bindings that modules import.
    ...[
      startTimer,
      pause,
      scheduler,
      randomUUID,
      randomBytes,
      randomFill,
      randomFillSync,
      randomInt,
    ],
    ...process.listeners('unhandledRejection'),
    ...process.listeners('uncaughtException'),
  ];
}

it('replaces timers, clocks and random numbers during a simulation, and restores them', async () => {
  const before = replacedValues();
  const own = Object.getOwnPropertyNames(performance);
  const { value: inside } = await simulate({ seed: 1 }, () => replacedValues());
  for (const [index, value] of inside.slice(0, before.length - 2).entries()) {
    expect(value, `the value of index ${index}`).not.toBe(before[index]);
  }
  expect(replacedValues()).toEqual(before);
  expect(Object.getOwnPropertyNames(performance)).toEqual(own);
  expect(Math.abs(Date.now() - performance.timeOrigin - performance.now())).toBeLessThan(60_000);
  await pause(1);
});

it('clears real timers during a simulation, and simulated timers after it', async () => {
  let fired = false;
  const timer = setTimeout(() => (fired = true), 60_000);
  await simulate({ seed: 1 }, async () => {
    clearTimeout(timer);
    await pause(120_000);
  });
  expect(fired).toBe(false);
  const left = await simulate({ seed: 1 }, () => setTimeout(() => (fired = true), 1));
  clearTimeout(left.value);
  await pause(20);
  expect(fired).toBe(false);
});
