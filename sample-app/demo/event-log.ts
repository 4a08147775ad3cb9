import type { World } from 'nestjs-zookeeper/testing';
import type { NewEvent } from '../live/event-store.js';
import type { RunEvent } from '../live/events.js';

/** The events of a simulated run. */
export class EventLog {
  readonly events: RunEvent[] = [];

  constructor(private readonly world: World) {}

  /** Virtual milliseconds with two decimals. */
  get now(): number {
    return Math.round(this.world.now * 100) / 100;
  }

  add(event: NewEvent): void {
    this.events.push({ id: this.events.length + 1, at: this.now, ...event } as RunEvent);
  }
}
