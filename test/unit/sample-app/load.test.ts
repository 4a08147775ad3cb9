import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { sendBuyers } from '../../../sample-app/seckill/load.js';

/** Timeout in milliseconds. A request that is answered is answered within it. */
const PATIENCE = 60_000;

const servers: http.Server[] = [];

async function serve(handler: http.RequestListener): Promise<string> {
  const server = http.createServer(handler);
  servers.push(server);
  await once(server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

const answer = (status: number) => (_: http.IncomingMessage, response: http.ServerResponse) =>
  response.writeHead(status).end();

describe('the buyers', () => {
  it('send one request each, spread evenly over the instances, and count each answer but success and "sold out" as an error', async () => {
    const asked = [0, 0, 0, 0, 0];
    const urls = await Promise.all(
      [201, 409, 503, 412, 500].map((status, index) =>
        serve((request, response) => {
          asked[index]! += 1;
          answer(status)(request, response);
        }),
      ),
    );
    let last = {};
    const onProgress = (tally: object) => (last = { ...tally });
    const result = await sendBuyers({ urls, buyers: 50, patience: PATIENCE, onProgress });
    expect(asked).toEqual([10, 10, 10, 10, 10]);
    expect(result.requests).toBe(50);
    expect(result.errors).toBe(30);
    expect(last).toEqual({ sold: 10, soldOut: 10, refused: 30 });
  });

  it.each([
    ['normally', (request: http.IncomingMessage) => request.socket.end()],
    ['with a reset', (request: http.IncomingMessage) => request.socket.resetAndDestroy()],
  ])(
    'count an error if the instance closes the connection %s, and do not retry',
    async (_, hangUp) => {
      let asked = 0;
      const dying = await serve((request) => {
        asked += 1;
        hangUp(request);
      });
      const urls = [dying, await serve(answer(201))];
      expect(await sendBuyers({ urls, buyers: 20, patience: PATIENCE })).toMatchObject({
        errors: 10,
      });
      expect(asked).toBe(10);
    },
  );

  it('count an error if no server listens or no reply comes in time', async () => {
    const closed = await serve(answer(201));
    servers.pop()!.close();
    const silent = await serve(() => undefined);
    const urls = [closed, silent, await serve(answer(201))];
    expect(await sendBuyers({ urls, buyers: 30, patience: 1_500 })).toMatchObject({ errors: 20 });
  });

  it('compute the 99th percentile over all instances together', async () => {
    const held: (() => void)[] = [];
    let longest = 0;
    const slow = await serve((_, response) => {
      const since = performance.now();
      held.push(() => {
        longest = Math.max(longest, performance.now() - since);
        response.writeHead(201).end();
      });
      if (held.length === 5) for (const reply of held) reply();
    });
    const fast = await serve(answer(201));
    const { p50, p99 } = await sendBuyers({ urls: [fast, slow], buyers: 10, patience: PATIENCE });
    expect(p50).toBeLessThanOrEqual(p99);
    expect(p99).toBeGreaterThanOrEqual(Math.floor(longest));
  });

  it('stop when the signal aborts', async () => {
    const urls = [await serve(() => undefined)];
    const interrupt = new AbortController();
    const run = sendBuyers({ urls, buyers: 10, patience: 60_000, signal: interrupt.signal });
    interrupt.abort(new Error('enough'));
    await expect(run).rejects.toThrow('enough');
  });
});
