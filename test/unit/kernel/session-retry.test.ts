import { expect, it, vi } from 'vitest';
import {
  ConnectionError,
  type Session,
  SessionExpiredError,
  type ZkClient,
} from '../../../lib/client/index.js';
import { retryRead } from '../../../lib/kernel/session-retry.js';

it('a read without a connection is repeated once there is one, and fails in another session', async () => {
  const [session, next] = [{} as Session, {} as Session];
  const connected = vi.fn().mockResolvedValueOnce(session).mockResolvedValue(next);
  const client = { session: connected } as unknown as ZkClient;
  const lost = new ConnectionError('lost');
  const read = vi.fn().mockRejectedValueOnce(lost).mockRejectedValueOnce(lost);
  await expect(retryRead(client, session, read)).rejects.toThrow(SessionExpiredError);
  expect(read).toHaveBeenCalledTimes(2);
});
