import { Digest } from './digest.js';
import { mix, type Random } from './random.js';

/*
 * Virtual time. An event belongs to a process and happens at a time in milliseconds. The scheduler runs one event
 * after the other, in the order of their times. The seed decides the order of events of different origin that are
 * due at the same time. Between two events Node runs all ticks and microtasks.
 *
 * Code takes no virtual time, except that each reading of a clock takes a little and that a process may block. A
 * process handles its next event after the time that the last one took.
 */

/** Milliseconds that one reading of a clock takes. Without them, a loop that waits by reading a clock never ends. */
const CLOCK_READING = 0.0005;

/** Events that run before the real event loop gets its turn. */
const BATCH = 64;

/** The most events at one moment of virtual time. More of them are taken for an endless loop. */
const MOST_AT_ONCE = 1_000_000;

/** The most immediates that start one another. More of them are taken for an endless loop. */
const MOST_TURNS = 1_000_000;

// Simulations replace the global function.
const { setImmediate } = globalThis;

export type EventKind = 'timer' | 'turn' | 'message' | 'call';

/** The owner of events: a simulated process. */
export interface Actor {
  readonly id: number;
  /** Virtual time before which none of its events starts. */
  busyUntil: number;
  /** Whether it has crashed. Then its events never happen. */
  readonly crashed: boolean;
  /** Whether it is paused. Then its events wait until it resumes. */
  readonly paused: boolean;
  /** Keeps an event that came due during a pause. */
  hold(event: Event): void;
}

export interface Event {
  readonly actor: Actor;
  readonly kind: EventKind;
  readonly run: () => void;
  /** Virtual time at which the event happens. */
  at: number;
  /** Virtual time at which the event was due. It is earlier than `at` if the process was busy then. */
  due: number;
  /** Orders events that are due at the same time. */
  readonly tie: number;
  readonly order: number;
  /** For an immediate, its position in a series of immediates that started one another; otherwise 0. */
  readonly turns: number;
  cancelled: boolean;
}

/** How a run proceeds and when it ends. */
interface Course {
  /** Virtual milliseconds after which the run fails. */
  readonly limit: number;
  /** Whether the run is over; called before each event. */
  done(): boolean;
  /** Called after each batch, before the real event loop continues; it may throw. */
  inspect(): void;
  /** Returns the names of the processes that are paused. */
  paused(): string[];
}

export class Scheduler {
  /** Virtual milliseconds since the simulation started. */
  now = 0;
  events = 0;
  /** Whether Node runs simulated events and their microtasks, rather than callbacks of the real event loop. */
  active = false;
  readonly digest = new Digest();
  readonly #heap: Event[] = [];
  readonly #salt: number;
  #order = 0;
  #elapsed = 0;
  #running: Actor | undefined;
  #atOnce = 0;
  #turns = 0;

  constructor(private readonly random: Random) {
    this.#salt = random.whole(0, 2 ** 32 - 1);
  }

  /** The process whose event is running. */
  get running(): Actor | undefined {
    return this.#running;
  }

  /** Virtual time for the code that is running, including the time that the present event has taken so far. */
  get time(): number {
    return this.now + this.#elapsed;
  }

  /** Returns the virtual time. The reading itself takes a little time. */
  readClock(): number {
    this.#elapsed += CLOCK_READING;
    return this.now + this.#elapsed;
  }

  /** Keeps a process busy for `ms` milliseconds. If its own code is running, that code takes the time. */
  block(actor: Actor, ms: number): void {
    if (actor === this.#running) this.#elapsed += ms;
    else actor.busyUntil = Math.max(actor.busyUntil, this.time) + ms;
  }

  /**
   * Schedules an event.
   *
   * @param group events of one process and group that are due at the same time keep their order
   */
  schedule(actor: Actor, at: number, kind: EventKind, run: () => void, group?: number): Event {
    const tie = group === undefined ? this.random.next() : this.#tie(actor, group, at);
    const order = this.#order++;
    const turns = kind === 'turn' ? this.#turns + 1 : 0;
    if (turns > MOST_TURNS) {
      throw new Error(
        `${MOST_TURNS} immediates started one another; the code under test repeats itself forever`,
      );
    }
    const event: Event = { actor, kind, run, at, due: at, tie, order, turns, cancelled: false };
    this.#push(event);
    return event;
  }

  /** Schedules an event that was held during a pause for now, before other events that are due now. */
  reschedule(event: Event): void {
    event.at = this.time;
    event.due = this.#order++ - Number.MAX_SAFE_INTEGER;
    this.#push(event);
  }

  /** Runs events until `done` returns true. */
  run({ limit, done, inspect, paused }: Course): Promise<void> {
    return new Promise((resolve, reject) => {
      let over = false;
      const finish = (settle: () => void) => {
        over = true;
        settle();
      };
      const step = () => {
        if (over) return;
        this.active = true;
        try {
          if (done()) finish(resolve);
          else this.#step(limit, paused);
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const close = () => {
        this.active = false;
        if (over) return;
        try {
          inspect();
          batch();
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const batch = () => {
        for (let index = 0; index < BATCH; index++) setImmediate(step);
        setImmediate(close);
      };
      batch();
    });
  }

  /** Removes all events. Node may keep an abort signal of a crashed process, and with it this object, forever. */
  clear(): void {
    this.#heap.length = 0;
  }

  /** Runs the next event. There is always one, because the ensemble schedules its next tick. */
  #step(limit: number, paused: Course['paused']): void {
    this.#settle();
    for (;;) {
      const event = this.#pop()!;
      const { actor } = event;
      if (event.cancelled || actor.crashed) continue;
      if (actor.paused) {
        actor.hold(event);
        continue;
      }
      if (actor.busyUntil > event.at) {
        event.at = actor.busyUntil;
        this.#push(event);
        continue;
      }
      if (event.at > limit) {
        const names = paused();
        throw new Error(
          `the scenario did not end within its limit of ${limit} virtual milliseconds; it may wait for something that never comes, or for something outside of the simulation, such as a real timer or a dynamic import()` +
            (names.length > 0 ? `; these are paused: ${names.join(', ')}` : ''),
        );
      }
      this.#atOnce = event.at > this.now ? 0 : this.#atOnce + 1;
      if (this.#atOnce > MOST_AT_ONCE) {
        throw new Error(
          `more than ${MOST_AT_ONCE} events happened at ${this.now} virtual milliseconds; the code under test repeats itself forever`,
        );
      }
      return this.#run(event);
    }
  }

  #run(event: Event): void {
    this.now = event.at;
    this.#running = event.actor;
    this.#turns = event.turns;
    this.events++;
    this.digest.number(event.at);
    this.digest.number(event.actor.id);
    event.run();
  }

  /** Keeps the last process busy for the time that its event took. The microtasks of that event have ended. */
  #settle(): void {
    const actor = this.#running;
    if (actor && this.#elapsed > 0) actor.busyUntil = Math.max(actor.busyUntil, this.time);
    this.#elapsed = 0;
  }

  #tie(actor: Actor, group: number, at: number): number {
    return mix(mix(mix(this.#salt ^ actor.id) ^ group) ^ Math.floor(at)) / 2 ** 32;
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let index = heap.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = event;
  }

  #pop(): Event | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (!top || !last || heap.length === 0) return top;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (!isBefore(heap[child]!, last)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
    return top;
  }
}

function isBefore(a: Event, b: Event): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.due !== b.due) return a.due < b.due;
  return a.tie === b.tie ? a.order < b.order : a.tie < b.tie;
}
