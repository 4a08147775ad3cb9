import { Observable } from 'rxjs';
import type { ZkCache } from './recipes/cache.js';
import { retryPause } from '../kernel/index.js';

/**
 * Emits the members of a group when the cache of the group is complete, and at each change. Completes when the cache is
 * closed. Closes it when it is unsubscribed.
 *
 * @param open returns a started cache; undefined after the shutdown
 */
export function memberChanges(
  open: () => ZkCache | undefined,
): Observable<ReadonlyMap<string, Buffer>> {
  return new Observable((subscriber) => {
    const cache = open();
    if (!cache) return subscriber.complete();
    const { path, signal } = cache;
    signal.addEventListener('abort', () => subscriber.complete(), { once: true });
    const emit = () => {
      const members = cache.children().sort();
      subscriber.next(new Map(members.map((id) => [id, cache.get(`${path}/${id}`)!.data])));
    };
    void untilComplete(cache).then((complete) => {
      if (!complete) return;
      emit();
      cache.onChange((event) => event.path !== path && emit());
    });
    return () => void cache.close();
  });
}

/** Resolves to false if the cache is closed before its copy is complete. The cache reports its errors. */
async function untilComplete(cache: ZkCache): Promise<boolean> {
  while (!cache.signal.aborted) {
    try {
      await cache.initialized();
      return true;
    } catch {
      await retryPause(cache.client, cache.signal);
    }
  }
  return false;
}
