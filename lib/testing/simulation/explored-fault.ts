import type { World } from './world.js';

/**
 * A moment of a run, at which a fault can be injected: directly before an event.
 *
 * @publicApi
 */
export interface Moment {
  /** The number of moments before it in the same run. */
  readonly index: number;
  /** Virtual milliseconds since the simulation started. */
  readonly at: number;
  /**
   * The event: a message arrives, a timer fires, or the code of a process continues, such as after `setImmediate()`.
   */
  readonly kind: 'message' | 'timer' | 'step';
  /** The name of the process that handles the event, or the address of the server. */
  readonly process: string;
  /** Whether a server or the network handles the event. */
  readonly server: boolean;
  /** Whether the event sends no message, other than a keep-alive or a `sync`, and adds no note to the trace. */
  readonly silent: boolean;
  /** The message that arrives. */
  readonly message:
    | {
        /** The name of the process that sent it, or to which it goes. */
        readonly process: string;
        /** Whether it goes to a server or to the process. */
        readonly direction: 'requests' | 'replies';
        /** The name of the operation that it asks for; undefined for a reply. */
        readonly operation: string | undefined;
      }
    | undefined;
}

/**
 * A fault that `explore()` injects at each moment.
 *
 * @publicApi
 */
export interface ExploredFault {
  /** A unique name, such as `reset a`. A plan refers to it. */
  readonly name: string;
  /** The name of the process, or the address of the server. */
  readonly target: string;
  /** Virtual milliseconds until the end of the fault; 0 for a fault that has no end. */
  readonly duration: number;
  /**
   * Returns whether the fault before this event can lead to another state than the fault after it. Other moments are
   * skipped. Default: always.
   */
  readonly applies?: ((moment: Moment) => boolean) | undefined;
  /** Returns whether the fault has an effect in the current state; moments at which it has none are skipped. Default: always. */
  readonly hasEffect?: ((world: World) => boolean) | undefined;
  /** Starts the fault. May return the function that ends it. */
  start(world: World): (() => void) | void;
}
