import { Injectable } from '@nestjs/common';
import { map, type Observable, share, timer } from 'rxjs';
import { Ensemble } from './ensemble.js';
import { EventStore } from './event-store.js';
import type { InstanceStatus, Status } from './events.js';
import { Fleet } from './fleet.js';
import { ReportReader } from './report-reader.js';
import { Sales } from './sales.js';
import { Scenarios } from './scenarios/scenarios.js';
import type { Slot } from './slot.js';

const INTERVAL = 200;
/** Servers expire sessions at whole ticks: milliseconds by which they may be late. */
const TICK = 2_000;

/** The present state, from what is known at that moment: it waits for nothing. */
@Injectable()
export class StatusSource {
  readonly statuses: Observable<Status> = timer(0, INTERVAL).pipe(
    map(() => this.status()),
    share(),
  );

  constructor(
    private readonly store: EventStore,
    private readonly ensemble: Ensemble,
    private readonly fleet: Fleet,
    private readonly reports: ReportReader,
    private readonly sales: Sales,
    private readonly scenarios: Scenarios,
  ) {}

  private status(): Status {
    const { answers, confirmedAt } = this.ensemble;
    return {
      at: this.store.now(),
      ensemble: { answers, confirmedAt, isPaused: this.fleet.zookeeper.has('pause') },
      instances: this.fleet.slots.map((slot) => this.instance(slot)),
      sales: this.sales.latest.map(({ status }) => status),
      scenario: this.scenarios.running,
    };
  }

  private instance(slot: Slot): InstanceStatus {
    const { number, life, faults, connection, instance } = slot;
    const { holders, leader } = this.reports;
    const movesOnAt = this.movesOnAt(slot);
    const expired = movesOnAt !== undefined && this.store.now() > movesOnAt + TICK;
    return {
      number,
      ...(life === 'alive' && { pid: instance!.pid }),
      life,
      faults: faults.names,
      ...connection,
      leads: leader === number,
      holds: holders.holds(number) && !expired,
      ...(movesOnAt !== undefined && !expired && { movesOnAt }),
    };
  }

  private movesOnAt({
    number,
    silentSince,
    connection: { confirmedAt },
  }: Slot): number | undefined {
    // An ensemble that does not answer may have no leader, and only a leader expires sessions.
    if (silentSince === undefined || confirmedAt === undefined || !this.ensemble.answers) {
      return undefined;
    }
    if (!this.reports.holders.blocks(number, silentSince)) return undefined;
    return confirmedAt + this.fleet.sessionTimeout;
  }
}
