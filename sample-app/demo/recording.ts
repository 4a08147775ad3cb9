import type { RunEvent, Status } from '../live/events.js';

/** A run that the page can play back: what the server of the page sends, with the times of the run. */
export interface Recording {
  readonly events: readonly RunEvent[];
  /** The states of the run in the order of their times. */
  readonly statuses: readonly Status[];
}
