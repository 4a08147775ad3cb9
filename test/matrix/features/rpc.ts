import type { INestApplication } from '@nestjs/common';
import { Controller } from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
  Transport,
} from '@nestjs/microservices';
import { firstValueFrom } from 'rxjs';
import { checkHandlers, Refusal } from '../support/handlers.js';
import type { Check } from '../support/instances.js';
import { messageHandlers } from '../support/messages.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();
const ports = new WeakMap<INestApplication, number>();

@Controller()
class Goods extends messageHandlers(shop, MessagePattern, Payload) {}

export const check: Check = (platform) =>
  checkHandlers(platform, {
    shop,
    metadata: { controllers: [Goods] },
    async listen(app) {
      const service = app.connectMicroservice<MicroserviceOptions>({
        transport: Transport.TCP,
        options: { host: '127.0.0.1', port: 0 },
      });
      await app.startAllMicroservices();
      await app.init();
      ports.set(app, service.unwrap<{ address(): { port: number } }>().address().port);
    },
    async call(app, operation) {
      const client = ClientProxyFactory.create({
        transport: Transport.TCP,
        options: { host: '127.0.0.1', port: ports.get(app)! },
      });
      try {
        return await firstValueFrom(client.send<unknown>(operation, 7));
      } catch (error) {
        const { code, retryAfter } = error as { code: string; retryAfter?: number };
        throw new Refusal(code, retryAfter ? { retryAfter } : {});
      } finally {
        await client.close();
      }
    },
    detectsDisconnect: false,
    refusals: { TIMEOUT: { retryAfter: 1 }, NOT_LEADER: { retryAfter: 1 } },
  });
