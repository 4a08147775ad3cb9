import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it, vi } from 'vitest';

// Without this function, modules keep the original functions that they imported, as they do in a context of node:vm.
vi.mock('node:module', async (original) => ({
  ...(await original<typeof import('node:module')>()),
  syncBuiltinESMExports: () => {},
}));

it('refuses to run if imported functions cannot be replaced, and restores the globals', async () => {
  const { setTimeout, Date: realDate } = globalThis;
  const listeners = process.listeners('unhandledRejection');
  await expect(simulate({ seed: 1 }, () => {})).rejects.toThrow(
    /^simulate: the test runner gives modules copies of .* set the option `pool` to 'forks' or 'threads'/,
  );
  expect(globalThis).toMatchObject({ setTimeout, Date: realDate });
  expect(process.listeners('unhandledRejection')).toEqual(listeners);
});
