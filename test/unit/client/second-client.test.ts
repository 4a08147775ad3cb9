import { expect, test, vi } from 'vitest';
import { ShuttingDownError, type ZkClient } from '../../../lib/client/index.js';
import { SecondClient } from '../../../lib/client/second-client.js';

const use = async () => {};

function secondClient() {
  const close = vi.fn(async () => {});
  const newClient = vi.fn(() => ({ connect: async () => {}, close }) as never as ZkClient);
  return { close, newClient, second: new SecondClient(newClient) };
}

test('a second client stays connected if a call asks for it, and is not opened after close()', async () => {
  const { close, newClient, second } = secondClient();
  await second.run(use, { keepOpen: true });
  await second.run(use);
  expect(close).not.toHaveBeenCalled();
  await second.close();
  expect(close).toHaveBeenCalledOnce();
  await expect(second.run(use)).rejects.toThrow(ShuttingDownError);
  expect(newClient).toHaveBeenCalledOnce();
});

test('a second client is closed after the last call, and opened again for the next one', async () => {
  const { close, newClient, second } = secondClient();
  await Promise.all([second.run(use), second.run(use)]);
  expect(close).toHaveBeenCalledOnce();
  await second.run(use);
  expect(newClient).toHaveBeenCalledTimes(2);
});
