import { NodeError } from 'nestjs-zookeeper';
import { expect, it, vi } from 'vitest';
import { claimTick } from '../../../lib/services/tick-claims.js';

it('claims a tick again if the server reaps the container before the znode is created', async () => {
  const gone = new NodeError('NO_NODE', '/ticks/job', -101, 'create');
  const client = { get: () => Promise.reject(gone), ensureContainers: vi.fn() };
  const term = { transaction: vi.fn().mockRejectedValueOnce(gone).mockResolvedValue([]) };
  expect(await claimTick(client as never, term as never, '/ticks/job', 1, true)).toBe(true);
  expect(client.ensureContainers).toHaveBeenCalledTimes(2);
});
