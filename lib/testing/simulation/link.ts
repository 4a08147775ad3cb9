import type { CutWay } from '../../embedded/index.js';
import { bounds, show } from './options.js';
import type { Random } from './random.js';

const WAYS: ReadonlySet<unknown> = new Set<CutWay>(['requests', 'replies', 'both']);

/** The process that a link connects to the servers. */
interface Owner {
  readonly crashed: boolean;
}

/**
 * The network between one process and the servers. A fault strikes the connections that exist and new ones,
 * until the caller calls the function that the fault returned. Faults of a process that has crashed do nothing.
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

  /** @internal */
  constructor(
    private readonly owner: Owner,
    private readonly random: Random,
  ) {}

  /**
   * Holds back all messages of one direction or both, including the message that a connection has ended. Returns
   * the function that ends the cut. The messages then arrive, except those of connections that have ended.
   */
  cut(way: CutWay = 'both'): () => void {
    if (!WAYS.has(way)) {
      throw new TypeError(`simulate: cut takes 'requests', 'replies' or 'both', got ${show(way)}`);
    }
    if (this.owner.crashed) return () => {};
    const ways = way === 'both' ? (['requests', 'replies'] as const) : [way];
    for (const each of ways) this.#cuts[each]++;
    this.#note(`network cut: ${way}`);
    return once(() => {
      for (const each of ways) this.#cuts[each]--;
      this.#note(`network healed: ${way}`);
      this.#changed();
    });
  }

  /**
   * Refuses new connections. Connections that exist continue; {@link reset} ends them. Returns the function that
   * ends the fault.
   */
  refuseConnections(): () => void {
    if (this.owner.crashed) return () => {};
    this.#refusals++;
    this.#note('connections refused');
    return once(() => {
      this.#refusals--;
      this.#note('connections accepted');
    });
  }

  /** Breaks the connections of the process. Messages on their way are lost. */
  reset(): void {
    if (this.owner.crashed) return;
    this.#note('connections reset');
    this.#broken();
  }

  /** Whether new connections are refused. */
  get refuses(): boolean {
    return this.#refusals > 0;
  }

  /**
   * Whether messages of a direction are held back.
   *
   * @internal
   */
  isCut(way: 'requests' | 'replies'): boolean {
    return this.#cuts[way] > 0;
  }

  /**
   * Returns the milliseconds that the next message takes.
   *
   * @internal
   */
  delay(): number {
    return this.random.between(...this.latency);
  }

  /**
   * Called once by the network that carries the link.
   *
   * @internal
   */
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
