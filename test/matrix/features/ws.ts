import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { DistributedLock, LeaderOnly } from 'nestjs-zookeeper';
import { io } from 'socket.io-client';
import { checkHandlers, Refusal } from '../support/handlers.js';
import { type Check, ELECTION, listenOnAnyPort } from '../support/instances.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();

@WebSocketGateway()
class Goods {
  @SubscribeMessage('sell')
  @DistributedLock((id: number) => `goods-${id}`)
  async sell(@MessageBody() _id: number) {
    return shop.sell();
  }

  @DistributedLock('stock', { wait: 0 })
  @SubscribeMessage('attempt')
  async attempt() {
    return shop.sell();
  }

  @SubscribeMessage('patience')
  @DistributedLock('stock', { wait: 50 })
  async patience() {
    return shop.sell();
  }

  @SubscribeMessage('lead')
  @LeaderOnly(ELECTION)
  async lead() {
    return shop.lead();
  }

  @SubscribeMessage('hold')
  @DistributedLock('stock')
  async hold() {
    return shop.hold();
  }
}

export const check: Check = (platform) =>
  checkHandlers(platform, {
    shop,
    metadata: { providers: [Goods] },
    listen: listenOnAnyPort,
    async call(app, operation, signal) {
      const socket = io(await app.getUrl(), { transports: ['websocket'], forceNew: true });
      signal?.addEventListener('abort', () => socket.disconnect());
      try {
        return await new Promise((resolve, reject) => {
          socket.on('exception', ({ code, retryAfter }: { code: string; retryAfter?: number }) =>
            reject(new Refusal(code, retryAfter ? { retryAfter } : {})),
          );
          socket.emit(operation, 7, resolve);
        });
      } finally {
        socket.disconnect();
      }
    },
    hearsHangUp: true,
    refusals: { TIMEOUT: { retryAfter: 1 } },
  });
