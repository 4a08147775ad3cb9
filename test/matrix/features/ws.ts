import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { io } from 'socket.io-client';
import { checkHandlers, Refusal } from '../support/handlers.js';
import { type Check, listenOnAnyPort } from '../support/instances.js';
import { messageHandlers } from '../support/messages.js';
import { Shop } from '../support/shop.js';

const shop = new Shop();

@WebSocketGateway()
class Goods extends messageHandlers(shop, SubscribeMessage, MessageBody) {}

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
    detectsDisconnect: true,
    refusals: { TIMEOUT: { retryAfter: 1 }, NOT_LEADER: { retryAfter: 1 } },
  });
