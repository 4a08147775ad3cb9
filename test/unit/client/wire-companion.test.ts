import { expect, test, vi } from 'vitest';
import { ShuttingDownError } from '../../../lib/client/index.js';
import { type CompanionClient, WireCompanion } from '../../../lib/client/wire-companion.js';

function companion() {
  const close = vi.fn(async () => {});
  const newClient = vi.fn(() => ({ connect: async () => {}, close }) as never as CompanionClient);
  return { close, newClient, companion: new WireCompanion(newClient) };
}

test('a companion that was closed makes no other client', async () => {
  const { close, newClient, companion: closed } = companion();
  await closed.run(async () => {}, true);
  expect(close).not.toHaveBeenCalled();
  await closed.close();
  expect(close).toHaveBeenCalledOnce();
  await expect(closed.run(async () => {})).rejects.toThrow(ShuttingDownError);
  expect(newClient).toHaveBeenCalledOnce();
});

test('without a transaction, a companion closes its client after the last call', async () => {
  const { close, newClient, companion: shared } = companion();
  await Promise.all([shared.run(async () => {}), shared.run(async () => {})]);
  expect(close).toHaveBeenCalledOnce();
  await shared.run(async () => {});
  expect(newClient).toHaveBeenCalledTimes(2);
});
