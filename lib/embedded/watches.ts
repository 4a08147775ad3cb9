import type { EventType } from '../protocol/index.js';

export interface Watcher {
  notify(type: EventType, path: string): void;
}

/** One-shot watches of one kind: one for each watcher and path, however often it was asked for. */
export class Watches {
  readonly #byPath = new Map<string, Set<Watcher>>();
  readonly #byWatcher = new Map<Watcher, Set<string>>();

  get counts(): { watchers: number; paths: number; total: number } {
    let total = 0;
    for (const paths of this.#byWatcher.values()) total += paths.size;
    return { watchers: this.#byWatcher.size, paths: this.#byPath.size, total };
  }

  add(path: string, watcher: Watcher): void {
    insert(this.#byPath, path, watcher);
    insert(this.#byWatcher, watcher, path);
  }

  /** Takes the path's watches away and tells their watchers, but for those of `except`; returns them all. */
  trigger(path: string, type: EventType, except?: Set<Watcher>): Set<Watcher> | undefined {
    const watchers = this.#byPath.get(path);
    if (!watchers) return undefined;
    this.#byPath.delete(path);
    for (const watcher of watchers) {
      remove(this.#byWatcher, watcher, path);
      if (!except?.has(watcher)) watcher.notify(type, path);
    }
    return watchers;
  }

  forget(watcher: Watcher): void {
    for (const path of this.#byWatcher.get(watcher) ?? []) remove(this.#byPath, path, watcher);
    this.#byWatcher.delete(watcher);
  }
}

function insert<K, V>(index: Map<K, Set<V>>, key: K, value: V): void {
  const values = index.get(key);
  if (values) values.add(value);
  else index.set(key, new Set([value]));
}

function remove<K, V>(index: Map<K, Set<V>>, key: K, value: V): void {
  const values = index.get(key);
  if (values?.delete(value) && values.size === 0) index.delete(key);
}
