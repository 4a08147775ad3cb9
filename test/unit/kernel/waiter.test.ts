import { expect, test } from 'vitest';
import { WaitCancelledError } from '../../../lib/client/errors.js';
import { Waiter } from '../../../lib/kernel/waiter.js';

test('a waiter that has left takes no value, so that the caller of resolve() can give it back', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  let left = 0;
  const subject = { noun: 'semaphore', key: 'printers' } as const;
  const request = { subject, wait: Infinity, signal, data: Buffer.alloc(0), linger: 0, count: 1 };
  const waiter = new Waiter<string>(request, { remove: () => left++ });
  controller.abort();
  expect(waiter.resolve('permit')).toBe(false);
  waiter.reject(new Error('too late'));
  await expect(waiter.promise).rejects.toBeInstanceOf(WaitCancelledError);
  expect(left).toBe(1);
});
