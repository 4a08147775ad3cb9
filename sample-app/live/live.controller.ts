import type { IncomingMessage } from 'node:http';
import {
  Body,
  Controller,
  HttpCode,
  type MessageEvent,
  Param,
  ParseIntPipe,
  Post,
  Req,
  Sse,
} from '@nestjs/common';
import { concat, defer, map, type Observable, of } from 'rxjs';
import { Fleet } from './fleet.js';
import { isLocal } from './local-only.guard.js';
import { Sale } from './sale.js';
import { type SaleOrder, SaleOrderPipe } from './sale-order.js';
import { Watch } from './watch.js';

/** Data and actions of the page. */
@Controller('live')
export class LiveController {
  constructor(
    private readonly fleet: Fleet,
    private readonly sale: Sale,
    private readonly watch: Watch,
  ) {}

  /** Emits the history first, then one snapshot after another. */
  @Sse('events')
  events(@Req() request: IncomingMessage): Observable<MessageEvent> {
    const soFar = () => ({
      canControl: isLocal(request),
      canExpire: this.fleet.canExpire,
      history: this.watch.history,
    });
    return concat(
      defer(() => of({ type: 'hello', data: soFar() })),
      this.watch.snapshots.pipe(map((data) => ({ type: 'now', data }))),
    );
  }

  @Post('sale')
  @HttpCode(204)
  start(@Body(SaleOrderPipe) order: SaleOrder): void {
    this.sale.start(order);
  }

  @Post('instances/:number/kill')
  @HttpCode(204)
  kill(@Param('number', ParseIntPipe) number: number): void {
    this.fleet.kill(number);
  }

  @Post('instances/:number/revive')
  @HttpCode(204)
  revive(@Param('number', ParseIntPipe) number: number): Promise<void> {
    return this.fleet.revive(number);
  }

  @Post('instances/:number/expire')
  @HttpCode(204)
  expire(@Param('number', ParseIntPipe) number: number): Promise<void> {
    return this.fleet.expire(number);
  }
}
