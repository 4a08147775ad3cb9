import type { INestApplication } from '@nestjs/common';
import { Controller, Get, Param, ParseIntPipe } from '@nestjs/common';
import { DistributedLock, LeaderOnly } from 'nestjs-zookeeper';
import { checkHandlers, Refusal } from '../support/handlers.js';
import { type Check, ELECTION, listenOnAnyPort } from '../support/instances.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();

@Controller()
class Goods {
  @Get('sell/:id')
  @DistributedLock((id: number) => `goods-${id + 1}`)
  async sell(@Param('id', ParseIntPipe) _id: number) {
    return [await shop.sell()];
  }

  @DistributedLock('stock', { wait: 0 })
  @Get('attempt/:id')
  async attempt() {
    return [await shop.sell()];
  }

  @Get('patience/:id')
  @DistributedLock('stock', { wait: 50 })
  async patience() {
    return [await shop.sell()];
  }

  @Get('lead/:id')
  @LeaderOnly(ELECTION)
  async lead() {
    return [await shop.lead()];
  }

  @Get('hold/:id')
  @DistributedLock('stock')
  async hold() {
    return [await shop.hold()];
  }
}

export const check: Check = (platform) =>
  checkHandlers(platform, {
    shop,
    metadata: { controllers: [Goods] },
    listen: listenOnAnyPort,
    async call(app: INestApplication, operation, signal) {
      const response = await fetch(`${await app.getUrl()}/${operation}/6`, { signal });
      const body = (await response.json()) as Record<string, unknown>;
      if (response.ok) return (body as unknown as unknown[])[0];
      const retryAfter = response.headers.get('retry-after');
      throw new Refusal(body.code, { status: response.status, ...(retryAfter && { retryAfter }) });
    },
    detectsDisconnect: true,
    refusals: {
      BUSY: { status: 409 },
      TIMEOUT: { status: 503, retryAfter: '1' },
      NOT_LEADER: { status: 503, retryAfter: '1' },
      LEASE_LOST: { status: 500 },
    },
  });
