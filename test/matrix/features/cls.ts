import assert from 'node:assert/strict';
import { Controller, Get, type INestApplication, Injectable } from '@nestjs/common';
import { ClsModule, ClsService, ClsServiceManager } from 'nestjs-cls';
import { currentLease, DistributedLock } from 'nestjs-zookeeper';
import { type Check, listenOnAnyPort, withInstances } from '../support/instances.js';

const userOf = () => String(ClsServiceManager.getClsService().get('user'));

@Injectable()
class Carts {
  constructor(private readonly cls: ClsService) {}

  /** The key is made from the context of the request. */
  @DistributedLock(() => `cart-${userOf()}`)
  async fill() {
    await Promise.resolve();
    return [this.cls.get('user') as string, currentLease()!.key];
  }
}

@Controller()
class CartController {
  constructor(private readonly carts: Carts) {}

  @Get('provider')
  provider() {
    return this.carts.fill();
  }

  @Get('handler')
  @DistributedLock(() => `cart-${userOf()}`)
  async handler() {
    return [userOf(), currentLease()!.key];
  }
}

export const check: Check = (platform) => {
  const setup = (cls: ClsService, request: { headers: Record<string, string> }) =>
    cls.set('user', request.headers['x-user']);
  const imports = [ClsModule.forRoot({ global: true, middleware: { mount: true, setup } })];
  const metadata = { imports, controllers: [CartController], providers: [Carts] };
  return withInstances(platform, metadata, listenOnAnyPort, async ({ one }) => {
    const fill = async (way: string, user: string) => {
      const headers = { 'x-user': user };
      const response = await fetch(`${await url(one)}/${way}`, { headers });
      return (await response.json()) as unknown;
    };
    for (const way of ['provider', 'handler']) {
      const answers = await Promise.all(['ann', 'bob'].map((user) => fill(way, user)));
      assert.deepEqual(answers, [
        ['ann', 'cart-ann'],
        ['bob', 'cart-bob'],
      ]);
    }
  });
};

const url = (app: INestApplication) => app.getUrl();
