import { expect, test, vi } from 'vitest';
import { ShuttingDownError, type ZkClient } from '../../../lib/client/index.js';
import { SecondClient } from '../../../lib/client/second-client.js';

test('a second client stays connected, and is not opened after close()', async () => {
  const close = vi.fn(async () => {});
  const newClient = vi.fn(
    () => ({ connect: async () => {}, session: async () => {}, close }) as never as ZkClient,
  );
  const second = new SecondClient(newClient);
  await second.session();
  await second.session();
  expect(close).not.toHaveBeenCalled();
  await second.close();
  expect(close).toHaveBeenCalledOnce();
  await expect(second.session()).rejects.toThrow(ShuttingDownError);
  expect(newClient).toHaveBeenCalledOnce();
});
