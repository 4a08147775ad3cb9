import { EventEmitter, once } from 'node:events';
import { Injectable } from '@nestjs/common';
import { bufferTime, filter, fromEvent, type Observable, share } from 'rxjs';
import { monotonicNow } from '../seckill/clock.js';
import type { RunEvent } from './events.js';

/** Bounds the memory of a server that runs for long: about six sales of 400 buyers with a lock and without. */
export const MAX_EVENTS = 20_000;
/** Number of the oldest events that are forgotten at a time. */
const FORGOTTEN_AT_A_TIME = 1_000;
/** Milliseconds for which new events are collected before they are sent to the pages. */
const BATCH = 50;

export type NewEvent = RunEvent extends infer E
  ? E extends unknown
    ? Omit<E, 'id' | 'at'>
    : never
  : never;

/** The events since the server started, or the last of them. */
@Injectable()
export class EventStore {
  readonly events: RunEvent[] = [];
  forgotten = 0;
  private readonly startedAt = monotonicNow();
  private readonly added = new EventEmitter<{ event: [RunEvent] }>();

  readonly batches: Observable<RunEvent[]> = fromEvent<RunEvent>(this.added, 'event').pipe(
    bufferTime(BATCH),
    filter((batch) => batch.length > 0),
    share(),
  );

  get lastId(): number {
    return this.forgotten + this.events.length;
  }

  /** Milliseconds since the server started. */
  now(): number {
    return this.timeOf(monotonicNow());
  }

  /** Converts a time of `monotonicNow()` in any process of this machine. */
  timeOf(monotonic: number): number {
    return Math.round((monotonic - this.startedAt) * 100) / 100;
  }

  add(event: NewEvent, at = this.now()): void {
    const stored = { id: this.lastId + 1, at, ...event } as RunEvent;
    this.events.push(stored);
    if (this.events.length > MAX_EVENTS) {
      this.events.splice(0, FORGOTTEN_AT_A_TIME);
      this.forgotten += FORGOTTEN_AT_A_TIME;
    }
    this.added.emit('event', stored);
  }

  /** The stored events with a higher id. */
  after(id: number): RunEvent[] {
    return this.events.slice(Math.max(0, id - this.forgotten));
  }

  onEvent(listener: (event: RunEvent) => void): void {
    this.added.on('event', listener);
  }

  /** Resolves when an event is added; rejects when the signal aborts. */
  async nextEvent(signal: AbortSignal): Promise<void> {
    await once(this.added, 'event', { signal });
  }
}
