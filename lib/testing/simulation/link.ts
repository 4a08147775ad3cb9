import type { CutWay } from '../../embedded/index.js';
import { bounds, show } from './options.js';
import type { Random } from './random.js';

const WAYS: ReadonlySet<unknown> = new Set<CutWay>(['requests', 'replies', 'both']);

/**
 * The network between one process and the servers. Its faults hold for connections that exist and for new
 * ones, until the function that a fault returns is called.
 *
 * @publicApi
 */
export class Link {
  /** Bounds of the time that a message takes each way, in milliseconds. */
  get latency(): readonly [least: number, most: number] {
    return this.#latency;
  }

  set latency(latency: readonly [least: number, most: number]) {
    bounds('latency', latency);
    this.#latency = latency;
  }

  #latency: readonly [least: number, most: number] = [0.1, 1];
  #refusals = 0;
  readonly #cuts = { requests: 0, replies: 0 };
  #changed: () => void = () => {};
  #broken: () => void = () => {};
  #note: (event: string) => void = () => {};

  constructor(
    readonly process: string,
    private readonly random: Random,
  ) {}

  /**
   * Silences one direction or both: nothing arrives, not even that a connection ended. Nothing is lost
   * either: what was held back arrives after the returned function was called, unless the connection ended.
   */
  cut(way: CutWay = 'both'): () => void {
    if (!WAYS.has(way)) {
      throw new TypeError(`simulate: cut takes 'requests', 'replies' or 'both', got ${show(way)}`);
    }
    const ways = way === 'both' ? (['requests', 'replies'] as const) : [way];
    for (const each of ways) this.#cuts[each]++;
    this.#note(`network cut: ${way}`);
    return once(() => {
      for (const each of ways) this.#cuts[each]--;
      this.#note(`network healed: ${way}`);
      this.#changed();
    });
  }

  /** Refuses new connections. Those that exist continue; {@link reset} ends them. */
  refuseConnections(): () => void {
    this.#refusals++;
    this.#note('connections refused');
    return once(() => {
      this.#refusals--;
      this.#note('connections accepted');
    });
  }

  /** Breaks the connections of the process. What was on its way is lost. */
  reset(): void {
    this.#note('connections reset');
    this.#broken();
  }

  /** Whether new connections are refused. */
  get refuses(): boolean {
    return this.#refusals > 0;
  }

  isCut(way: 'requests' | 'replies'): boolean {
    return this.#cuts[way] > 0;
  }

  /** Milliseconds that the next message takes. */
  delay(): number {
    return this.random.between(...this.latency);
  }

  /** Called by the network that carries the link. */
  attach(events: { changed(): void; broken(): void; note(event: string): void }): void {
    this.#changed = events.changed;
    this.#broken = events.broken;
    this.#note = events.note;
  }
}

function once(undo: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    undo();
  };
}
