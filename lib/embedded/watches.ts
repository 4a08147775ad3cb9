import { type Acl, EventType } from '../protocol/index.js';

export interface Watcher {
  /** Sends a watch event, unless the watcher may not read a node with this ACL. */
  notify(type: EventType, path: string, acl?: readonly Acl[]): void;
}

/** A recursive watch is persistent, and covers all descendants, but not changes of their child lists. */
type WatchMode = 'once' | 'persistent' | 'recursive';

/** Watches of one kind: one for each watcher and path, in the mode that was requested last. */
export class Watches {
  readonly #byPath = new Map<string, Map<Watcher, WatchMode>>();
  readonly #byWatcher = new Map<Watcher, Set<string>>();
  /** The number of recursive watches. Without any, an event need not visit the ancestors. */
  #recursive = 0;

  get counts(): { watchers: number; paths: number; total: number } {
    let total = 0;
    for (const paths of this.#byWatcher.values()) total += paths.size;
    return { watchers: this.#byWatcher.size, paths: this.#byPath.size, total };
  }

  add(path: string, watcher: Watcher, mode: WatchMode = 'once'): void {
    this.remove(path, watcher);
    const watchers = this.#byPath.get(path);
    if (watchers) watchers.set(watcher, mode);
    else this.#byPath.set(path, new Map([[watcher, mode]]));
    const paths = this.#byWatcher.get(watcher);
    if (paths) paths.add(path);
    else this.#byWatcher.set(watcher, new Set([path]));
    if (mode === 'recursive') this.#recursive++;
  }

  /** Returns whether there is a watch on the path itself. */
  has(path: string): boolean {
    return this.#byPath.has(path);
  }

  /** Returns false if there is no such watch. */
  remove(path: string, watcher: Watcher): boolean {
    const watchers = this.#byPath.get(path);
    const mode = watchers?.get(watcher);
    if (!watchers || !mode) return false;
    watchers.delete(watcher);
    if (watchers.size === 0) this.#byPath.delete(path);
    const paths = this.#byWatcher.get(watcher)!;
    paths.delete(path);
    if (paths.size === 0) this.#byWatcher.delete(watcher);
    if (mode === 'recursive') this.#recursive--;
    return true;
  }

  /** Notifies each watcher once, except those in `except`, and removes one-shot watches. Returns all watchers. */
  trigger(
    path: string,
    type: EventType,
    acl: readonly Acl[],
    except?: Set<Watcher>,
  ): Set<Watcher> | undefined {
    const reached = new Set<Watcher>();
    for (const [watcher, mode] of this.#byPath.get(path) ?? []) {
      if (mode === 'recursive' && type === EventType.childrenChanged) continue;
      reached.add(watcher);
      if (mode === 'once') this.remove(path, watcher);
    }
    if (this.#recursive > 0 && type !== EventType.childrenChanged) {
      for (let above = path; above !== '/';) {
        above = above.slice(0, above.lastIndexOf('/')) || '/';
        for (const [watcher, mode] of this.#byPath.get(above) ?? []) {
          if (mode === 'recursive') reached.add(watcher);
        }
      }
    }
    for (const watcher of reached) if (!except?.has(watcher)) watcher.notify(type, path, acl);
    return reached.size > 0 ? reached : undefined;
  }

  forget(watcher: Watcher): void {
    for (const path of this.#byWatcher.get(watcher) ?? []) this.remove(path, watcher);
  }
}
