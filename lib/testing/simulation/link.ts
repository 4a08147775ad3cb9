import { checkWay, type CutWay } from '../../embedded/faults.js';
import { checkBounds } from './options.js';
import type { Random } from './random.js';

/** The process at one end of a link. */
interface LinkedProcess {
  readonly crashed: boolean;
}

interface LinkListeners {
  onCutEnd(): void;
  onReset(): void;
  /** Calls `act` after the next message of another process has arrived. */
  onNextOfOthers(direction: 'requests' | 'replies', act: () => void): void;
  note(event: string): void;
}

/**
 * The network between one process and the servers. A fault applies to existing and new connections until the caller
 * calls the function that ends it. After a crash of the process, these methods do nothing.
 *
 * @publicApi
 */
export class Link {
  /** The minimum and maximum latency of a message in each direction, in milliseconds. */
  get latency(): readonly [min: number, max: number] {
    return this.#latency;
  }

  set latency(latency: readonly [min: number, max: number]) {
    checkBounds('latency', latency);
    this.#latency = latency;
  }

  #latency: readonly [min: number, max: number] = [0.1, 1];
  #refusals = 0;
  readonly #cuts = { requests: 0, replies: 0 };
  #listeners: LinkListeners | undefined;

  /** @internal */
  constructor(
    private readonly process: LinkedProcess,
    private readonly random: Random,
  ) {}

  /**
   * Holds back all messages in one direction or both, including the notification that a connection was closed. Returns
   * the function that ends the cut. The messages are delivered then, except those of connections that were closed.
   */
  cut(direction: CutWay = 'both'): () => void {
    checkWay('simulate: the direction of cut()', direction);
    if (this.process.crashed) return () => {};
    const directions = direction === 'both' ? (['requests', 'replies'] as const) : [direction];
    for (const each of directions) this.#cuts[each]++;
    this.#listeners?.note(`network cut: ${direction}`);
    return once(() => {
      for (const each of directions) this.#cuts[each]--;
      this.#listeners?.note(`network healed: ${direction}`);
      this.#listeners?.onCutEnd();
    });
  }

  /**
   * Holds back the messages in one direction until the next message of another process has arrived. Returns the function
   * that ends the fault earlier.
   */
  letOthersOvertake(direction: 'requests' | 'replies'): () => void {
    const end = this.cut(direction);
    this.#listeners?.onNextOfOthers(direction, end);
    return end;
  }

  /**
   * Refuses new connections. Existing connections stay open; {@link reset} breaks them. Returns the function that ends
   * the fault.
   */
  refuseConnections(): () => void {
    if (this.process.crashed) return () => {};
    this.#refusals++;
    this.#listeners?.note('connections refused');
    return once(() => {
      this.#refusals--;
      this.#listeners?.note('connections accepted');
    });
  }

  /** Breaks the connections of the process. Messages in transit are lost. */
  reset(): void {
    if (this.process.crashed) return;
    this.#listeners?.note('connections reset');
    this.#listeners?.onReset();
  }

  /** Whether new connections are refused. */
  get refuses(): boolean {
    return this.#refusals > 0;
  }

  /** Returns whether messages in a direction are held back. @internal */
  isCut(direction: 'requests' | 'replies'): boolean {
    return this.#cuts[direction] > 0;
  }

  /** Draws the latency of the next message, in milliseconds. @internal */
  randomLatency(): number {
    return this.random.between(...this.latency);
  }

  /** Sets the listeners of the network. Called once. @internal */
  attach(listeners: LinkListeners): void {
    this.#listeners = listeners;
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
