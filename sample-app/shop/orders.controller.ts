import { ConflictException, Controller, HttpCode, Param, Post } from '@nestjs/common';
import { NumberPipe } from './input.js';
import { Order } from './order.entity.js';
import { Transactions } from './transactions.js';

@Controller('orders/:orderId')
export class OrdersController {
  constructor(private readonly transactions: Transactions) {}

  /** Needs no lock. Payment and cancellation are each one conditional UPDATE, so at most one of them succeeds. */
  @Post('pay')
  @HttpCode(200)
  async pay(@Param('orderId', NumberPipe) id: number) {
    const { affected } = await this.transactions.run((manager) =>
      manager.update(Order, { id, state: 'unpaid' }, { state: 'paid' }),
    );
    if (affected === 0) {
      throw new ConflictException(
        `order ${id} cannot be paid: it does not exist, is paid already, or was cancelled`,
      );
    }
    return { orderId: id, state: 'paid' };
  }
}
