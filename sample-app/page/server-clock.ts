/** Number of messages, about ten seconds of statuses. Either clock may drift or stop in a suspended machine. */
const KEPT = 50;

/** The server's clock, estimated from the times of its messages. */
export class ServerClock {
  /** The page's clock minus that of the server, at each of the last messages. */
  #offsets: number[] = [];

  /** @param at when the server sent a message that is received now */
  set(at: number): void {
    this.#offsets = [...this.#offsets, performance.now() - at].slice(-KEPT);
  }

  /** The message with the smallest offset was the fastest. */
  get now(): number {
    return this.#offsets.length === 0 ? 0 : performance.now() - Math.min(...this.#offsets);
  }
}
