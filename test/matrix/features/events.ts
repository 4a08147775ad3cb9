import assert from 'node:assert/strict';
import { Injectable } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { DistributedLock } from 'nestjs-zookeeper';
import { type Check, listenOnAnyPort, withInstances } from '../support/instances.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();

@Injectable()
class Listener {
  @OnEvent('order.placed')
  @DistributedLock(({ goods }: { goods: number }) => `goods-${goods}`, { wait: 10_000 })
  async sell(_order: { goods: number }) {
    return shop.sell();
  }
}

export const check: Check = (platform) => {
  const metadata = { imports: [EventEmitterModule.forRoot()], providers: [Listener] };
  return withInstances(platform, metadata, listenOnAnyPort, async ({ one, other }) => {
    const emits = [one, other, one, other].map((app) =>
      app.get(EventEmitter2).emitAsync('order.placed', { goods: 7 }),
    );
    await Promise.all(emits);
    assert.deepEqual({ most: shop.most, sold: shop.sold }, { most: 1, sold: 4 });
  });
};
