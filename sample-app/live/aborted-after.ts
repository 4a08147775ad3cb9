/** Returns a signal that aborts with another one, or after a number of milliseconds. */
export function abortedAfter(milliseconds: number, signal: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(milliseconds);
  // Node 20 frees a timeout that only AbortSignal.any() refers to, and its signal never aborts.
  timeout.addEventListener('abort', () => {});
  return AbortSignal.any([signal, timeout]);
}
