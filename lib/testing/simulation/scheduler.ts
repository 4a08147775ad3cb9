import type { Packet } from '../../embedded/stream.js';
import { Digest } from './digest.js';
import { mix, type Random } from './random.js';

/*
 * Virtual time. An event belongs to a process and happens at a time in virtual milliseconds. The scheduler runs the
 * events one at a time, in the order of their times. The seed decides the order of events that are due at the same
 * time, unless they are timers of one process with the same delay. Between two events Node runs all ticks and
 * microtasks.
 *
 * Running code takes no virtual time, with two exceptions: each reading of a clock takes CLOCK_READING_TIME, and a
 * process may block. The process handles its next event after this time.
 */

/** Milliseconds that one reading of a clock takes. Without this time, a loop that polls a clock would never end. */
const CLOCK_READING_TIME = 0.0005;

/** The number of events that run before the real event loop continues. */
const BATCH_SIZE = 64;

/** The greatest number of events at the same virtual time. More events are reported as an endless loop. */
const MAX_SIMULTANEOUS_EVENTS = 1_000_000;

/**
 * The greatest length of a chain of immediates that start one another. A longer chain is reported as an endless loop.
 */
const MAX_IMMEDIATE_CHAIN = 1_000_000;

// A simulation replaces the global function.
const { setImmediate } = globalThis;

type EventKind = 'timer' | 'immediate' | 'message' | 'call';

/** The owner of events: a simulated process. */
export interface Actor {
  readonly id: number;
  readonly name: string;
  /** The virtual time before which none of its events happens. */
  busyUntil: number;
  /** Whether it has crashed. If so, its events never happen. */
  readonly crashed: boolean;
  /** Whether it is paused. If so, its events are held until it resumes. */
  readonly paused: boolean;
  /** Holds an event that came due during a pause. */
  hold(event: Event): void;
}

/** What arrives in an event of kind `message`. */
export interface Message {
  /** The process at one end of the connection. */
  readonly process: { readonly name: string };
  /** Whether it goes to the server or to the process. */
  readonly direction: 'requests' | 'replies';
  /** Undefined for a packet of the TCP handshake. */
  readonly packet: Packet | undefined;
}

export interface Event {
  readonly actor: Actor;
  readonly kind: EventKind;
  readonly run: () => void;
  /** The virtual time at which the event happens. */
  at: number;
  /** The virtual time at which the event was due. It is earlier than `at` if the process was busy. */
  due: number;
  /** A random number that orders events which are due at the same time. */
  readonly tieBreaker: number;
  /** The number of events that were scheduled earlier. It orders events with equal tie breakers. */
  readonly sequence: number;
  /** For an immediate, its position in a chain of immediates that started one another; otherwise 0. */
  readonly chainLength: number;
  readonly message: Message | undefined;
  cancelled: boolean;
}

/** Options of {@link Scheduler.schedule}. */
interface ScheduleOptions {
  /** Events of one process and group that are due at the same time keep their order. */
  readonly group?: number | undefined;
  readonly message?: Message;
  readonly due?: number;
}

/** Options of {@link Scheduler.run}. */
interface RunOptions {
  /** Virtual milliseconds after which the run fails. */
  readonly limit: number;
  /** Returns whether the run is over. Called before each event. */
  isDone(): boolean;
  /** Called after each batch, before the real event loop continues. An error that it throws ends the run. */
  afterBatch(): void;
  /** Returns the processes and servers that are paused or busy, for the message of an error. */
  stoppedNames(): string[];
}

export class Scheduler {
  /** Virtual milliseconds since the simulation started. */
  now = 0;
  /** The number of events that have happened. */
  events = 0;
  /** Whether Node runs simulated events and their microtasks, rather than callbacks of the real event loop. */
  active = false;
  readonly digest = new Digest();
  /**
   * A digest without times: the requests and replies that are not keep-alives, and the notes of processes. It does not
   * contain the faults themselves, so it tells whether a fault had an effect.
   */
  readonly behaviour = new Digest();
  /**
   * Called before each event. If it returns true, it has scheduled other events, and the event is not yet run. It is
   * called again before that.
   */
  beforeEvent: ((event: Event) => boolean) | undefined;
  readonly #heap: Event[] = [];
  readonly #salt: number;
  #ended = false;
  #sequence = 0;
  /** Virtual milliseconds that the current event has taken so far. */
  #elapsed = 0;
  #running: Actor | undefined;
  /** The number of events that have happened at the current time. */
  #simultaneousEvents = 0;
  /** The chain length of the current event. */
  #chainLength = 0;

  constructor(private readonly random: Random) {
    this.#salt = random.whole(0, 2 ** 32 - 1);
  }

  /** Whether the simulation has ended. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The process whose event is running. */
  get running(): Actor | undefined {
    return this.#running;
  }

  /** The virtual time for the running code, including the time that the current event has taken so far. */
  get time(): number {
    return this.now + this.#elapsed;
  }

  /** Returns the virtual time. The reading itself takes a little time. */
  readClock(): number {
    this.#elapsed += CLOCK_READING_TIME;
    return this.now + this.#elapsed;
  }

  /** Keeps a process busy for `ms` milliseconds. If its own code is running, the code after the call runs later. */
  block(actor: Actor, ms: number): void {
    if (actor === this.#running) this.#elapsed += ms;
    else actor.busyUntil = Math.max(actor.busyUntil, this.time) + ms;
  }

  /** Schedules an event. */
  schedule(
    actor: Actor,
    at: number,
    kind: EventKind,
    run: () => void,
    { group, message, due = at }: ScheduleOptions = {},
  ): Event {
    const tieBreaker =
      group === undefined ? this.random.next() : this.#tieBreaker(actor, group, at);
    const sequence = this.#sequence++;
    const chainLength = kind === 'immediate' ? this.#chainLength + 1 : 0;
    if (chainLength > MAX_IMMEDIATE_CHAIN) {
      throw new Error(
        `more than ${MAX_IMMEDIATE_CHAIN} immediates started one another; the code under test probably has an endless loop`,
      );
    }
    const event: Event = {
      actor,
      kind,
      run,
      at,
      due,
      tieBreaker,
      sequence,
      chainLength,
      message,
      cancelled: false,
    };
    this.#push(event);
    return event;
  }

  /** Schedules an event before the given one, which happens next. */
  scheduleBefore(next: Event, actor: Actor, run: () => void): void {
    this.schedule(actor, next.at, 'call', run, { due: -Infinity });
  }

  /** Schedules an event that was held during a pause. It happens now, before other events that are due now. */
  reschedule(event: Event): void {
    event.at = this.time;
    event.due = this.#sequence++ - Number.MAX_SAFE_INTEGER;
    this.#push(event);
  }

  /** Runs events until `isDone` returns true. */
  run({ limit, isDone, afterBatch, stoppedNames }: RunOptions): Promise<void> {
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
          if (isDone()) finish(resolve);
          else this.#step(limit, stoppedNames);
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const endBatch = () => {
        this.active = false;
        if (over) return;
        try {
          afterBatch();
          startBatch();
        } catch (error) {
          finish(() => reject(error));
        }
      };
      const startBatch = () => {
        for (let index = 0; index < BATCH_SIZE; index++) setImmediate(step);
        setImmediate(endBatch);
      };
      startBatch();
    });
  }

  /**
   * Removes all events, and ignores those that are scheduled later. Code of the simulation may still run, such as after
   * real I/O, and Node may never free an abort signal that refers to this object.
   */
  end(): void {
    this.#ended = true;
    this.#heap.length = 0;
  }

  /** Runs the next event. There is always a next event, because the ensemble schedules its next tick. */
  #step(limit: number, stoppedNames: RunOptions['stoppedNames']): void {
    this.#endEvent();
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
        const names = stoppedNames();
        throw new Error(
          `the scenario did not end within its limit of ${limit} virtual milliseconds; it may wait for something that never comes, or for something outside of the simulation, such as a worker thread or a dynamic import()` +
            (names.length > 0 ? `; these are paused or busy: ${names.join(', ')}` : ''),
        );
      }
      if (this.beforeEvent?.(event)) {
        this.#push(event);
        continue;
      }
      this.#simultaneousEvents = event.at > this.now ? 0 : this.#simultaneousEvents + 1;
      if (this.#simultaneousEvents > MAX_SIMULTANEOUS_EVENTS) {
        throw new Error(
          `more than ${MAX_SIMULTANEOUS_EVENTS} events happened at ${this.now} virtual milliseconds; the code under test probably has an endless loop`,
        );
      }
      return this.#run(event);
    }
  }

  #run(event: Event): void {
    this.now = event.at;
    this.#running = event.actor;
    this.#chainLength = event.chainLength;
    this.events++;
    this.digest.addNumber(event.at);
    this.digest.addNumber(event.actor.id);
    event.run();
  }

  /** Ends the last event, after its microtasks have run: keeps its process busy for the time that the event took. */
  #endEvent(): void {
    const actor = this.#running;
    if (actor && this.#elapsed > 0) actor.busyUntil = Math.max(actor.busyUntil, this.time);
    this.#elapsed = 0;
  }

  #tieBreaker(actor: Actor, group: number, at: number): number {
    return mix(mix(mix(this.#salt ^ actor.id) ^ group) ^ Math.floor(at)) / 2 ** 32;
  }

  #push(event: Event): void {
    if (this.#ended) return;
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
  return a.tieBreaker === b.tieBreaker ? a.sequence < b.sequence : a.tieBreaker < b.tieBreaker;
}
