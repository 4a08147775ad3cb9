import { EventEmitter, once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Fleet } from '../../../sample-app/live/fleet.js';
import { ProxyController } from '../../../sample-app/live/proxy.controller.js';

describe('a request that the server of the page forwards', () => {
  let instance: http.Server;
  let proxy: ProxyController;

  beforeEach(async () => {
    instance = http.createServer();
    await once(instance.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(instance.address() as AddressInfo).port}`;
    proxy = new ProxyController({ healthy: [{ instance: { url } }] } as unknown as Fleet);
  });

  afterEach(() => {
    instance.closeAllConnections();
    instance.close();
  });

  async function forward() {
    const client = new EventEmitter();
    const request = { method: 'POST', originalUrl: '/x' } as IncomingMessage & {
      originalUrl: string;
    };
    const forwarded = proxy.forward(request, client as ServerResponse);
    const [, answer] = (await once(instance, 'request')) as [IncomingMessage, ServerResponse];
    return { client, forwarded, answer };
  }

  it('is aborted at the instance when its client leaves', async () => {
    const { client, forwarded, answer } = await forward();
    const aborted = once(answer, 'close');
    client.emit('close');
    await expect(forwarded).rejects.toMatchObject({ status: 502 });
    await aborted;
  });

  it('is answered with 502 when the instance dies in the middle of its answer', async () => {
    const { forwarded, answer } = await forward();
    answer.writeHead(200, { 'content-length': 10 });
    answer.write('half', () => answer.destroy());
    await expect(forwarded).rejects.toMatchObject({ status: 502 });
  });
});
