import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { abortedAfter } from '../aborted-after.js';
import type { EventStore, NewEvent } from '../event-store.js';
import type { Captions, RunEvent, Scenario } from '../events.js';
import type { Fleet } from '../fleet.js';
import type { ReportReader } from '../report-reader.js';
import type { Sale } from '../sale.js';
import type { Sales } from '../sales.js';

/** Timeout of one step of a scenario in milliseconds: longer than a session timeout and a reconnection. */
const LONGEST_WAIT = 20_000;
/** Milliseconds to read a caption. */
const READING_TIME = 1_500;

/** An event of one of these types. */
export type EventOf<T extends RunEvent['type']> = RunEvent & { readonly type: T };

export interface ScenarioContext {
  readonly fleet: Fleet;
  readonly sales: Sales;
  readonly reports: ReportReader;
  readonly store: EventStore;
}

/** One run of a scenario: it follows the events in their order, and adds captions. */
export class ScenarioRun<S extends Scenario = Scenario> {
  /** Id of the last event that the run has seen. */
  private seen: number;

  constructor(
    readonly scenario: S,
    readonly context: ScenarioContext,
    private readonly signal: AbortSignal,
  ) {
    this.seen = context.store.lastId;
  }

  caption(caption: Captions[S], instance?: number): void {
    const { scenario } = this;
    const about = instance === undefined ? {} : { instance };
    this.context.store.add({ type: 'caption', scenario, caption, ...about } as NewEvent);
  }

  /** Resolves to the next matching event that the run has not seen yet; rejects when it is stopped or waits too long. */
  async next<T extends RunEvent['type']>(
    types: T | readonly T[],
    matches: (event: EventOf<T>) => boolean = () => true,
  ): Promise<EventOf<T>> {
    const { store } = this.context;
    const signal = abortedAfter(LONGEST_WAIT, this.signal);
    for (;;) {
      for (const event of store.after(this.seen)) {
        this.seen = event.id;
        if (isOneOf(event, types) && matches(event)) return event;
      }
      await store.nextEvent(signal);
    }
  }

  /** Resolves to the final orders of each sale when all have ended; rejects when the run is stopped. */
  async orders(selling: Promise<readonly Sale[]>): Promise<(number | undefined)[]> {
    this.signal.throwIfAborted();
    const sales = await Promise.race([selling, once(this.signal, 'abort')]);
    this.signal.throwIfAborted();
    return (sales as readonly Sale[]).map(({ finalOrders }) => finalOrders);
  }

  /** Adds the last caption, which states the result; throws if the result is another one. */
  end(isConfirmed: boolean, instance?: number): void {
    if (!isConfirmed) throw new Error('the result is not what its last caption states');
    this.caption('end', instance);
  }

  /** Leaves time to read the last caption. */
  async readingTime(): Promise<void> {
    await wait(READING_TIME, undefined, { signal: this.signal });
  }
}

function isOneOf<T extends RunEvent['type']>(
  event: RunEvent,
  types: T | readonly T[],
): event is EventOf<T> {
  return ([types].flat() as string[]).includes(event.type);
}
