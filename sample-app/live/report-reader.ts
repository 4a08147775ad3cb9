import { Injectable } from '@nestjs/common';
import type {
  InstanceReport,
  ReportedEvent,
  ReportedLease,
  ReportedPurchase,
} from '../seckill/instance-report.js';
import { goodsKey } from '../shop/goods-stock.service.js';
import { EventStore, type NewEvent } from './event-store.js';
import { LockHolders } from './lock-holders.js';

interface SaleTimes {
  readonly sale: number;
  readonly startedAt: number;
  endedAt: number;
}

/** Stores what the instances report as events of the page, with the numbers of their sales. */
@Injectable()
export class ReportReader {
  readonly holders = new LockHolders();
  leader?: number;
  private readonly salesByKey = new Map<string, SaleTimes[]>();

  constructor(private readonly store: EventStore) {
    store.onEvent((event) => {
      if (event.type === 'sale-started') this.addSale(goodsKey(event.goods), event);
      else if (event.type === 'sale-ended') this.endSale(event.sale, event.at);
      else if (event.type === 'died' && this.leader === event.instance) this.leader = undefined;
    });
  }

  read(instance: number, { events }: InstanceReport): void {
    for (const reported of events) {
      const at = this.store.timeOf(reported.at);
      const event = this.toEvent(instance, reported, at);
      if (event) this.store.add(event, at);
    }
  }

  private toEvent(instance: number, event: ReportedEvent, at: number): NewEvent | undefined {
    if (event.type === 'connection') {
      const { state, session } = event;
      return { type: 'connection', instance, state, session };
    }
    if (event.type === 'leader') return this.leaderEvent(instance, event.leads);
    return 'lease' in event
      ? this.leaseEvent(instance, event, at)
      : this.purchaseEvent(instance, event, at);
  }

  private leaderEvent(instance: number, leads: boolean): NewEvent | undefined {
    if (leads) {
      this.leader = instance;
      return { type: 'leader', instance };
    }
    if (this.leader === instance) this.leader = undefined;
    return undefined;
  }

  private leaseEvent(instance: number, event: ReportedLease, at: number): NewEvent {
    const { at: _, key, ...rest } = event;
    const { lease } = event;
    if (event.type === 'granted') {
      this.holders.granted(key, { instance, lease, token: BigInt(event.token) });
    } else if (event.type === 'released') {
      this.holders.released(key, lease, at);
    } else if (event.type === 'lost') {
      this.holders.lost(key, lease);
    }
    const sale = this.saleOf(key, at);
    return {
      ...rest,
      instance,
      ...(event.type === 'requested' && { key }),
      ...(sale !== undefined && { sale }),
    } as NewEvent;
  }

  /** Undefined for a purchase that belongs to no sale. */
  private purchaseEvent(
    instance: number,
    event: ReportedPurchase,
    at: number,
  ): NewEvent | undefined {
    const { at: _, goodsNo, ...rest } = event;
    const sale = this.saleOf(goodsKey(goodsNo), at);
    return sale === undefined ? undefined : ({ ...rest, instance, sale } as NewEvent);
  }

  private addSale(key: string, { sale, at }: { sale: number; at: number }): void {
    const sales = this.salesByKey.get(key) ?? [];
    this.salesByKey.set(key, sales);
    sales.push({ sale, startedAt: at, endedAt: Infinity });
  }

  private endSale(sale: number, at: number): void {
    for (const times of [...this.salesByKey.values()].flat()) {
      if (times.sale === sale) times.endedAt = at;
    }
  }

  private saleOf(key: string, at: number): number | undefined {
    const sales = this.salesByKey.get(key);
    return sales?.find(({ startedAt, endedAt }) => at >= startedAt && at <= endedAt)?.sale;
  }
}
