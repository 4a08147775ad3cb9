import { DistributedLock, LeaderOnly } from 'nestjs-zookeeper';
import type { Operation } from './handlers.js';
import { ELECTION } from './instances.js';
import type { Shop } from './shop.js';

/**
 * Returns the handlers of a message transport, made with its own decorators for handlers and
 * payloads.
 */
export function messageHandlers(
  shop: Shop,
  Handles: (operation: Operation) => MethodDecorator,
  Sent: () => ParameterDecorator,
) {
  class Goods {
    @Handles('sell')
    @DistributedLock((id: number) => `goods-${id}`)
    async sell(@Sent() _id: number) {
      return shop.sell();
    }

    @DistributedLock('stock', { wait: 0 })
    @Handles('attempt')
    async attempt() {
      return shop.sell();
    }

    @Handles('patience')
    @DistributedLock('stock', { wait: 50 })
    async patience() {
      return shop.sell();
    }

    @Handles('lead')
    @LeaderOnly(ELECTION)
    async lead() {
      return shop.lead();
    }

    @Handles('hold')
    @DistributedLock('stock')
    async hold() {
      return shop.hold();
    }
  }
  return Goods;
}
