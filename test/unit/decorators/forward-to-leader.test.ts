import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import type { LeaderParticipant } from 'nestjs-zookeeper/recipes';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { forwardToLeader } from '../../../lib/decorators/forward-to-leader.js';

const leader = createServer();
beforeEach(async () => {
  await once(leader.listen(0, '127.0.0.1'), 'listening');
  // The timers of sockets are others.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(async () => {
  vi.useRealTimers();
  leader.closeAllConnections();
  await new Promise((resolve) => leader.close(resolve));
});

/** Forwards a request. Resolves when the leader has received it. */
async function forward() {
  const request = { method: 'GET', originalUrl: '/', headers: {} };
  const response = { status() {}, header() {} };
  const context = new ExecutionContextHost([request, response], class {}, () => {});
  const id = `http://127.0.0.1:${(leader.address() as AddressInfo).port}`;
  const forwarded = forwardToLeader({
    election: 'job',
    label: 'Jobs.run',
    context,
    leader: async () => ({ id }) as LeaderParticipant,
  });
  const [, answer] = (await once(leader, 'request')) as [unknown, ServerResponse];
  return { forwarded, answer };
}

describe('a forwarded call', () => {
  it('fails if the leader does not begin its answer within 60 s', async () => {
    const { forwarded } = await forward();
    vi.advanceTimersByTime(60_000);
    await expect(forwarded).rejects.toMatchObject({ code: 'FORWARDING' });
  });

  it('has the whole answer if the leader begins it in time, however long the rest takes', async () => {
    const { forwarded, answer } = await forward();
    answer.write('first ');
    const file = await forwarded;
    vi.advanceTimersByTime(60_000);
    answer.end('last');
    expect(await text(file.getStream())).toBe('first last');
  });
});
