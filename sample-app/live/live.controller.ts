import type { IncomingMessage } from 'node:http';
import {
  Body,
  Controller,
  HttpCode,
  type MessageEvent,
  Param,
  Post,
  Req,
  Sse,
} from '@nestjs/common';
import { concat, defer, filter, map, merge, type Observable, of } from 'rxjs';
import { EventStore } from './event-store.js';
import type { Hello, RunEvent } from './events.js';
import { Fleet } from './fleet.js';
import { isLocal } from '../shop/local-only.guard.js';
import { bothSales, oneSale, type SaleOrder } from './sale-order.js';
import { Sales } from './sales.js';
import { Scenarios } from './scenarios/scenarios.js';
import { CAN_PAUSE } from './slot.js';
import { StatusSource } from './status-source.js';

/** The events of the page, its sales and its scenarios. */
@Controller('live')
export class LiveController {
  constructor(
    private readonly store: EventStore,
    private readonly fleet: Fleet,
    private readonly sales: Sales,
    private readonly scenarios: Scenarios,
    private readonly statuses: StatusSource,
  ) {}

  /** Sends all events so far, and then new events and the present state. See events.ts. */
  @Sse('events')
  events(@Req() request: IncomingMessage): Observable<MessageEvent> {
    return defer(() => {
      const { lastId } = this.store;
      return concat(
        of({ type: 'hello', data: this.hello(isLocal(request)) }),
        merge(
          this.statuses.statuses.pipe(map((data) => ({ type: 'status', data }))),
          this.store.batches.pipe(
            // A batch that was begun before may have events that `hello` has.
            map((batch) => batch.filter(({ id }) => id > lastId)),
            filter((batch) => batch.length > 0),
            map((data: RunEvent[]) => ({ type: 'events', data })),
          ),
        ),
      );
    });
  }

  @Post('sale')
  @HttpCode(204)
  sell(@Body(oneSale) order: SaleOrder): void {
    this.scenarios.refuseWhileRunning();
    void this.sales.start(order);
  }

  /** Starts two sales with the same settings: one with a lock, one without. */
  @Post('both')
  @HttpCode(204)
  sellBoth(@Body(bothSales) order: SaleOrder): void {
    this.scenarios.refuseWhileRunning();
    void this.sales.startBoth(order);
  }

  @Post('scenarios/stop')
  @HttpCode(204)
  stopScenario(): void {
    this.scenarios.stop();
  }

  @Post('scenarios/:name')
  @HttpCode(204)
  startScenario(@Param('name') name: string): void {
    this.scenarios.start(name);
  }

  private hello(canControl: boolean): Hello {
    const { events, forgotten } = this.store;
    const { canExpire } = this.fleet;
    return {
      now: this.store.now(),
      events,
      forgotten,
      canControl,
      canExpire,
      canPause: CAN_PAUSE,
    };
  }
}
