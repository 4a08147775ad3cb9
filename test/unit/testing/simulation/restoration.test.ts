import nodeCrypto, {
  randomBytes,
  randomFill,
  randomFillSync,
  randomInt,
  randomUUID,
} from 'node:crypto';
import { readFile } from 'node:fs/promises';
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
  const randoms = ['randomUUID', 'randomBytes', 'randomFill', 'randomFillSync', 'randomInt'];
  return [
    ...properties(globalThis, [...names, 'clearImmediate', 'Date']),
    ...properties(timers, [...names, 'clearImmediate']),
    ...properties(timersPromises, ['setTimeout', 'setImmediate', 'setInterval', 'scheduler']),
    ...properties(nodeCrypto, randoms),
    ...properties(globalThis.crypto, ['randomUUID', 'getRandomValues']),
    ...properties(nodePerformance, ['now', 'timeOrigin']),
    Math.random,
    AbortSignal.timeout,
    process.hrtime,
    process.uptime,
    // The bindings that modules import.
    ...[startTimer, pause, scheduler],
    ...[randomUUID, randomBytes, randomFill, randomFillSync, randomInt],
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

const { setTimeout: realTimeout } = globalThis;

/** Runs a simulation of some timers. Real I/O may complete meanwhile. */
function digestOfTimers(): Promise<string> {
  const waits = async () => {
    for (let step = 0; step < 500; step++) await pause(1);
  };
  return simulate({ seed: 5 }, (world) => world.process('a').run(waits)).then((run) => run.digest);
}

it.each<[string, () => unknown]>([
  ['a file', () => readFile('package.json')],
  ['a real timer', () => new Promise((resolve) => realTimeout(resolve, 1))],
])(
  'ignores code of an ended simulation that continues in the next one after %s',
  async (_, wait) => {
    const digest = await digestOfTimers();
    let continued = false;
    const leftover = async () => {
      await wait();
      continued = true;
      setInterval(() => {}, 1);
      for (;;) await pause(1);
    };
    const run = simulate({ seed: 4 }, (world) => world.process('a').run(() => void leftover()));
    await expect(run).rejects.toThrow('real I/O');
    do expect(await digestOfTimers()).toBe(digest);
    while (!continued);
  },
);

it('passes errors of an ended simulation to the listeners of the test runner', async () => {
  const event = 'unhandledRejection';
  const listeners = process.listeners(event);
  const errors: unknown[] = [];
  process.removeAllListeners(event);
  const reported = new Promise<void>((resolve) =>
    process.on(event, (error) => {
      errors.push(error);
      resolve();
    }),
  );
  try {
    const run = simulate({ seed: 4 }, (world) =>
      world.process('a').run(() => void readFile('/no such file')),
    );
    await expect(run).rejects.toThrow('real I/O');
    await digestOfTimers();
    await reported;
  } finally {
    process.removeAllListeners(event);
    for (const listener of listeners) process.on(event, listener);
  }
  expect(errors).toMatchObject([{ code: 'ENOENT' }]);
});

it('leaves the original functions to code outside of the simulation', async () => {
  const digest = await digestOfTimers();
  const years = new Set<number>();
  let fired = 0;
  const timer = setInterval(() => {
    years.add(new Date(Date.now()).getFullYear());
    setTimeout(() => fired++, 0);
  }, 1);
  do expect(await digestOfTimers()).toBe(digest);
  while (fired === 0);
  clearInterval(timer);
  expect(years).toEqual(new Set([new Date().getFullYear()]));
});

it('makes dates whose constructor is Date', async () => {
  const realDate = Date;
  const { value } = await simulate({ seed: 1 }, () => new Date());
  expect(value.constructor).toBe(realDate);
  await simulate({ seed: 1 }, () => {
    expect(new Date().constructor).toBe(Date);
    expect(value).toBeInstanceOf(Date);
    expect(new Date()).toBeInstanceOf(realDate);
  });
});
