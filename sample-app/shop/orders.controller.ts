import { ConflictException, Controller, HttpCode, Param, ParseIntPipe, Post } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { Order } from './order.entity.js';

@Controller('orders/:id')
export class OrdersController {
  constructor(@InjectRepository(Order) private readonly orders: Repository<Order>) {}

  /** Needs no lock. Payment and cancellation are each one conditional UPDATE, so at most one of them succeeds. */
  @Post('pay')
  @HttpCode(200)
  async pay(@Param('id', ParseIntPipe) id: number) {
    const { affected } = await this.orders.update({ id, state: 'unpaid' }, { state: 'paid' });
    if (affected === 0) {
      throw new ConflictException(
        `order ${id} cannot be paid: it does not exist, is paid already, or was cancelled`,
      );
    }
    return { orderId: id, state: 'paid' };
  }
}
