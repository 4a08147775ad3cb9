import assert from 'node:assert/strict';
import { Controller, Get, Injectable, Param } from '@nestjs/common';
import { createObserveModule } from '@nestjs/observe';
import {
  currentLease,
  currentTerm,
  DistributedLock,
  LeaderOnly,
  LockService,
} from 'nestjs-zookeeper';
import { type Check, ELECTION, listenOnAnyPort, withInstances } from '../support/instances.js';

const { ObserveModule, ObserveInstrument } = createObserveModule();

@Injectable()
class Stock {
  @DistributedLock((id: string) => `goods-${id}`, { wait: 0 })
  async take(_id: string) {
    return currentLease()!.key;
  }
}

@Controller()
class Goods {
  constructor(private readonly stock: Stock) {}

  @Get('provider/:id')
  provider(@Param('id') id: string) {
    return this.stock.take(id);
  }

  @Get('handler/:id')
  @DistributedLock((id: string) => `goods-${id}`, { wait: 0 })
  async handler(@Param('id') _id: string) {
    return currentLease()!.key;
  }

  @Get('lead/:id')
  @LeaderOnly(ELECTION)
  async lead() {
    return currentTerm()!.election;
  }
}

/** Observe places a proxy around each instance. */
export const check: Check = (platform) => {
  // Nobody listens there.
  const agent = { appKey: 'k', appSecret: 's', serviceId: 'shop', endpoint: 'http://127.0.0.1:1' };
  const imports = [ObserveModule.forRoot(agent)];
  const metadata = { imports, controllers: [Goods], providers: [Stock] };
  return withInstances(
    platform,
    metadata,
    listenOnAnyPort,
    async ({ one, other }) => {
      const ask = async (way: string) => {
        const response = await fetch(`${await one.getUrl()}/${way}/6`);
        return [response.status, await response.text()];
      };
      for (const way of ['provider', 'handler']) assert.deepEqual(await ask(way), [200, 'goods-6']);
      assert.deepEqual(await ask('lead'), [200, ELECTION]);
      await using _lease = await other.get(LockService).acquire('goods-6');
      assert.equal((await ask('handler'))[0], 409);
    },
    { instrument: ObserveInstrument },
  );
};
