/**
 * Returns `result`.
 *
 * @throws Error if it is a promise
 */
export function synchronous<R>(result: R | PromiseLike<R>, source: string): R {
  if (typeof (result as Partial<PromiseLike<R>> | null | undefined)?.then !== 'function') {
    return result as R;
  }
  // The rejection would be unhandled.
  Promise.resolve(result).catch(() => {});
  throw new Error(`${source} returned a promise: make it synchronous`);
}
