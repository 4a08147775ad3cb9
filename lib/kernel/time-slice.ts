import { setImmediate } from 'node:timers';
import { ProcessState } from '../client/process-state.js';

/** Milliseconds for which locks are handed over before the process yields to the event loop, for timers and replies. */
const MAX_SLICE = 0.5;

/** The time until the handovers of all locks of this process must yield to the event loop. */
const slice = new ProcessState(() => ({
  end: undefined as number | undefined,
  yielding: Promise.resolve() as Promise<unknown>,
}));

/** Returns undefined if time is left in this turn of the event loop; otherwise a promise that resolves in the next one. */
export function untilYielded(): Promise<void> | undefined {
  const { current } = slice;
  const now = performance.now();
  if (current.end === undefined) {
    current.end = now + MAX_SLICE;
    current.yielding = new Promise<void>((resolve) => setImmediate(resolve)).then(
      () => (current.end = undefined),
    );
  }
  return now < current.end ? undefined : (current.yielding as Promise<void>);
}
