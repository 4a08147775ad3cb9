import type { Recording } from '../../demo/recording.js';
import type { RunEvent } from '../../live/events.js';
import type { SourceListener } from '../source.js';

/** Real milliseconds between two deliveries of events. */
const INTERVAL = 50;

/** Plays a recording to the page. */
export class Playback {
  #recording: Recording = { events: [], statuses: [] };
  /** When each event is delivered: in the order of the ids, also if an instance reported it late. */
  #dueTimes: readonly number[] = [];
  #sent = 0;
  #speed = 1;
  #isPlaying = false;
  /** The time of the recording when the clock last started or stopped, and the real time at that moment. */
  #start = { at: 0, real: 0 };

  constructor(private readonly listener: SourceListener) {}

  /** Starts to deliver events while time passes. Returns a function that stops it. */
  run(): () => void {
    const timer = setInterval(() => this.#deliver(), INTERVAL);
    return () => clearInterval(timer);
  }

  /** The time of the recording. */
  get now(): number {
    const { at, real } = this.#start;
    const elapsed = this.#isPlaying ? (performance.now() - real) * this.#speed : 0;
    return Math.min(at + elapsed, this.#recording.statuses.at(-1)?.at ?? 0);
  }

  set speed(speed: number) {
    this.#restart(this.now, this.#isPlaying);
    this.#speed = speed;
  }

  /** Shows a recording at a time; default: at its beginning. The clock is stopped until `play()`. */
  show(recording: Recording, at = recording.statuses[0]!.at): void {
    this.#recording = recording;
    let due = 0;
    this.#dueTimes = recording.events.map((event) => (due = Math.max(due, event.at)));
    this.#restart(at, false);
    this.#sent = 0;
    const rest = { forgotten: 0, canControl: true, canExpire: true, canPause: true };
    this.listener.onHello({ now: at, events: this.#dueEvents(), ...rest });
    this.#deliver();
  }

  play(): void {
    this.#restart(this.now, true);
  }

  stop(): void {
    this.#restart(this.now, false);
  }

  #restart(at: number, isPlaying: boolean): void {
    this.#start = { at, real: performance.now() };
    this.#isPlaying = isPlaying;
  }

  #deliver(): void {
    const { now } = this;
    const events = this.#dueEvents();
    if (events.length > 0) this.listener.onEvents(events);
    const status = this.#recording.statuses.findLast(({ at }) => at <= now);
    if (status) this.listener.onStatus(status);
  }

  /** Returns the events that are due and were not delivered yet. */
  #dueEvents(): RunEvent[] {
    const { now } = this;
    const from = this.#sent;
    while (this.#dueTimes[this.#sent]! <= now) this.#sent++;
    return this.#recording.events.slice(from, this.#sent);
  }
}
