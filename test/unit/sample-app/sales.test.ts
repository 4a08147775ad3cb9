import { once } from 'node:events';
import http, { type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Logger } from '@nestjs/common';
import { afterEach, describe, expect, it } from 'vitest';
import { EventStore } from '../../../sample-app/live/event-store.js';
import type { FiguresReader } from '../../../sample-app/live/figures-reader.js';
import type { Fleet } from '../../../sample-app/live/fleet.js';
import { Sales } from '../../../sample-app/live/sales.js';
import { eventually } from '../../support/eventually.js';

describe('two sales', () => {
  const instance = http.createServer();

  afterEach(() => instance.close());

  it('fail together, but not before each instance has answered, and say which one failed', async () => {
    Logger.overrideLogger(false);
    const waiting: ServerResponse[] = [];
    let isRefused = false;
    instance.on('request', ({ url }, response) => {
      if (url === '/goods-stock/phone-unlocked/reset') return waiting.push(response);
      response.on('close', () => (isRefused = true));
      return response.writeHead(503).end(JSON.stringify({ message: 'no lock' }));
    });
    await once(instance.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(instance.address() as AddressInfo).port}`;
    const slot = { number: 1, instance: { url } };
    const fleet = { healthy: [slot], slots: [slot], setDelay: () => undefined };
    const store = new EventStore();
    const sales = new Sales(fleet as unknown as Fleet, store, {} as FiguresReader);

    const ended = sales.startBoth({ mode: 'lock', buyers: 1, items: 1, delay: [0, 0] });
    await eventually(() => expect([isRefused, waiting.length]).toEqual([true, 1]));
    expect(sales.running).toBe(true);
    waiting[0]!.end('{}');
    await ended;
    expect(sales.running).toBe(false);
    const failures = store.events.flatMap((event) =>
      event.type === 'sale-ended' ? event.failure : [],
    );
    const failure = 'instance 1 did not restore the stock of phone: no lock';
    expect(failures).toEqual([failure, failure]);
  });
});
