import { subscribe } from 'node:diagnostics_channel';
import type { DiagnosticsMessages } from 'nestjs-zookeeper/recipes';
import { PURCHASE_CHANNEL, type PurchaseMessage } from '../shop/purchase-steps.js';
import { monotonicNow } from './clock.js';
import type { InstanceReport, ReportedEvent } from './instance-report.js';
import { reasonOf } from './not-granted.js';

/** Milliseconds between two reports. */
const INTERVAL = 50;

type NewEvent = ReportedEvent extends infer E ? (E extends unknown ? Omit<E, 'at'> : never) : never;

/**
 * Reports the leases, the purchases, the connection and the leadership of this process. An event after a quiet time is
 * reported at once, further ones in batches.
 */
export class InstanceReporter {
  private events: ReportedEvent[] = [];
  private confirmedAt?: number;
  private sentAt = -Infinity;
  private timer?: NodeJS.Timeout;
  private leases = 0;

  constructor(private readonly send: (report: InstanceReport) => void) {
    this.subscribeToLeases();
    subscribe(PURCHASE_CHANNEL, (message) => {
      const { purchase, fencingToken, ...step } = message as PurchaseMessage;
      this.add({
        ...step,
        purchase: `${process.pid}-${purchase}`,
        ...(fencingToken !== undefined && { token: String(fencingToken) }),
      });
    });
    subscribe('nestjs-zookeeper:connection', (message) => {
      const { state, sessionId: session } =
        message as DiagnosticsMessages['nestjs-zookeeper:connection'];
      this.add({ type: 'connection', state, session });
    });
    subscribe('nestjs-zookeeper:leader', (message) => {
      const { event } = message as DiagnosticsMessages['nestjs-zookeeper:leader'];
      this.add({ type: 'leader', leads: event === 'elected' });
    });
  }

  /** Reports that ZooKeeper has answered a request that was sent at that time. */
  confirm(sentAt: number): void {
    this.confirmedAt = sentAt;
    this.schedule();
  }

  private subscribeToLeases(): void {
    const ids = new WeakMap<object, string>();
    let granted: string | undefined;
    subscribe('nestjs-zookeeper:wait', (published) => {
      const message = published as DiagnosticsMessages['nestjs-zookeeper:wait'];
      const { event, wait } = message;
      const { key } = wait.lock;
      if (event === 'began') {
        const lease = `${process.pid}-${++this.leases}`;
        ids.set(wait, lease);
        this.add({ type: 'requested', lease, key });
      } else if (event === 'granted') {
        // The message about the hold follows synchronously. A re-entry has no id, and no hold of its own.
        granted = ids.get(wait);
      } else {
        const lease = ids.get(wait)!;
        // `event` does not tell a lost connection from other failures.
        const reason = message.event === 'failed' ? reasonOf(message.error) : event;
        this.add({ type: 'not-granted', lease, key, reason });
      }
    });
    subscribe('nestjs-zookeeper:hold', (message) => {
      const { event, hold } = message as DiagnosticsMessages['nestjs-zookeeper:hold'];
      const { key } = hold.lock;
      if (event === 'began') {
        ids.set(hold, granted!);
        this.add({ type: 'granted', lease: granted!, key, token: String(hold.fencingToken) });
      } else {
        this.add({ type: event, lease: ids.get(hold)!, key });
      }
    });
  }

  private add(event: NewEvent): void {
    this.events.push({ ...event, at: monotonicNow() } as ReportedEvent);
    this.schedule();
  }

  private schedule(): void {
    this.timer ??= setTimeout(() => this.flush(), this.sentAt + INTERVAL - performance.now());
  }

  private flush(): void {
    const { events, confirmedAt } = this;
    this.timer = undefined;
    this.events = [];
    this.sentAt = performance.now();
    this.send({ events, confirmedAt });
  }
}
