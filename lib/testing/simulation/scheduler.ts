import { Digest } from './digest.js';
import { mix, type Random } from './random.js';

/*
 * Virtual time. Everything that happens is an event of a process at a time in milliseconds. Events run one
 * at a time in the order of their times; the seed decides the order of events of different origin that are
 * due at the same time. Between two events Node runs all ticks and microtasks.
 *
 * Time stands still while an event runs, except that each reading of a clock costs a little and that code
 * may block. A process whose event took time handles its next event only after that.
 */

/** Milliseconds that one reading of a clock takes, so that a loop that polls a clock comes to an end. */
const CLOCK_READING = 0.0005;

/** Events that run before the real event loop gets its turn. */
const BATCH = 64;

/** Events at one moment of virtual time; more of them mean that the code under test repeats itself forever. */
const MOST_AT_ONCE = 1_000_000;

// Taken before any simulation replaces them.
const { setImmediate } = globalThis;

export type EventKind = 'timer' | 'turn' | 'message' | 'call';

/** The owner of events: a simulated process. */
export interface Actor {
  readonly id: number;
  /** No event of it starts earlier. */
  busyUntil: number;
  /** Its events never happen. */
  readonly crashed: boolean;
  /** Its events wait until it resumes. */
  readonly paused: boolean;
  /** Keeps an event that came due during a pause. */
  hold(event: Event): void;
}

export interface Event {
  readonly actor: Actor;
  readonly kind: EventKind;
  readonly run: () => void;
  /** Virtual time at which it happens. */
  at: number;
  /** Virtual time at which it was due; earlier than `at` where its process was busy. */
  due: number;
  /** Orders events that are due at the same time. */
  readonly tie: number;
  readonly order: number;
  cancelled: boolean;
}

export class Scheduler {
  /** Virtual milliseconds since the simulation started. */
  now = 0;
  events = 0;
  readonly digest = new Digest();
  readonly #heap: Event[] = [];
  readonly #salt: number;
  #order = 0;
  #elapsed = 0;
  #running: Actor | undefined;
  #atOnce = 0;

  constructor(private readonly random: Random) {
    this.#salt = random.whole(0, 2 ** 32 - 1);
  }

  /** The process whose event is running. */
  get running(): Actor | undefined {
    return this.#running;
  }

  /** Virtual time for the code that is running: it includes the time that the present event has taken. */
  get time(): number {
    return this.now + this.#elapsed;
  }

  /** Returns the time and lets the reading take its time. */
  readClock(): number {
    this.#elapsed += CLOCK_READING;
    return this.now + this.#elapsed;
  }

  /** Lets the present event take so many milliseconds: its process does nothing else meanwhile. */
  block(ms: number): void {
    this.#elapsed += ms;
  }

  /** @param group events of one group that are due at the same time keep their order */
  schedule(actor: Actor, at: number, kind: EventKind, run: () => void, group?: number): Event {
    const tie = group === undefined ? this.random.next() : this.#tie(actor, group, at);
    const order = this.#order++;
    const event: Event = { actor, kind, run, at, due: at, tie, order, cancelled: false };
    this.#push(event);
    return event;
  }

  /** Puts an event that was held during a pause back in line. */
  reschedule(event: Event, at: number): void {
    event.at = event.due = at;
    this.#push(event);
  }

  /**
   * Runs events until `done` returns true.
   *
   * @param inspect called after each batch, before the real event loop continues; it may throw
   * @returns false where no event is left although `done` never returned true
   */
  run(done: () => boolean, limit: number, inspect: () => void): Promise<boolean> {
    return new Promise((resolve, reject) => {
      let over = false;
      const finish = (settle: () => void) => {
        over = true;
        settle();
      };
      const step = () => {
        if (over) return;
        try {
          if (done()) return finish(() => resolve(true));
          if (!this.#step(limit)) finish(() => resolve(false));
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const close = () => {
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

  /** False where no event is left. */
  #step(limit: number): boolean {
    for (;;) {
      const event = this.#pop();
      if (!event) return false;
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
        throw new Error(
          `the scenario did not end within its limit of ${limit} virtual milliseconds; it may wait for something outside of the simulation, such as a real timer or real I/O`,
        );
      }
      this.#atOnce = event.at > this.now ? 0 : this.#atOnce + 1;
      if (this.#atOnce > MOST_AT_ONCE) {
        throw new Error(
          `more than ${MOST_AT_ONCE} events happened at ${this.now} virtual milliseconds; the code under test repeats itself forever`,
        );
      }
      this.#run(event);
      return true;
    }
  }

  #run(event: Event): void {
    this.#settle();
    this.now = event.at;
    this.#running = event.actor;
    this.events++;
    this.digest.number(event.at);
    this.digest.number(event.actor.id);
    event.run();
  }

  /** The microtasks of the previous event have run by now: what it took is known. */
  #settle(): void {
    if (this.#running && this.#elapsed > 0) this.#running.busyUntil = this.now + this.#elapsed;
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
