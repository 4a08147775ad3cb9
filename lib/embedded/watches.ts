import {
  type Acl,
  AddWatchMode,
  EventType,
  ProtocolError,
  type SetWatches,
  type SetWatches2,
  type ValueOf,
  WatcherType,
} from '../protocol/index.js';

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

  pathsOf(watcher: Watcher): readonly string[] {
    return [...(this.#byWatcher.get(watcher) ?? [])];
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
    for (const path of this.pathsOf(watcher)) this.remove(path, watcher);
  }
}

/** A tree as its watches see it. */
interface WatchedTree {
  readonly nodes: ReadonlyMap<string, { readonly mzxid: number; readonly pzxid: number }>;
  readonly dataWatches: Watches;
  readonly childWatches: Watches;
}

/** The watches of a reconnected client, and the last zxid it has seen. */
type KnownWatches = ValueOf<typeof SetWatches> & Partial<ValueOf<typeof SetWatches2>>;

/** Sets the watches again, and notifies those that missed a change. */
export function setWatches(tree: WatchedTree, known: KnownWatches, watcher: Watcher): void {
  const { relativeZxid: zxid } = known;
  for (const path of known.dataWatches) {
    const node = tree.nodes.get(path);
    if (!node) watcher.notify(EventType.deleted, path);
    else if (node.mzxid > zxid) watcher.notify(EventType.dataChanged, path);
    else tree.dataWatches.add(path, watcher);
  }
  for (const path of known.existWatches) {
    if (tree.nodes.has(path)) watcher.notify(EventType.created, path);
    else tree.dataWatches.add(path, watcher);
  }
  for (const path of known.childWatches) {
    const node = tree.nodes.get(path);
    if (!node) watcher.notify(EventType.deleted, path);
    else if (node.pzxid > zxid) watcher.notify(EventType.childrenChanged, path);
    else tree.childWatches.add(path, watcher);
  }
  // Persistent watches get no event for missed changes: their clients must read again.
  for (const path of known.persistentWatches ?? []) {
    addWatch(tree, path, AddWatchMode.persistent, watcher);
  }
  for (const path of known.persistentRecursiveWatches ?? []) {
    addWatch(tree, path, AddWatchMode.persistentRecursive, watcher);
  }
}

/** Adds a persistent watch. ZooKeeper checks neither the path nor any ACL. */
export function addWatch(tree: WatchedTree, path: string, mode: number, watcher: Watcher): void {
  if (mode !== AddWatchMode.persistent && mode !== AddWatchMode.persistentRecursive) {
    throw new ProtocolError(`a watch of mode ${mode}`);
  }
  const lasting = mode === AddWatchMode.persistent ? 'persistent' : 'recursive';
  tree.dataWatches.add(path, watcher, lasting);
  tree.childWatches.add(path, watcher, lasting);
}

/** Returns whether the path has a watch. Like the real server, counts watches of every client. */
export function hasWatch(tree: WatchedTree, path: string, type: number): boolean {
  const watches = watchesOf(tree, type);
  if (path === '') return false;
  if (!path.includes('/')) throw new ProtocolError(`watches of the path ${path}`);
  return watches.some((kind) => kind.has(path));
}

/** Returns false if the client has no such watch. */
export function removeWatch(
  tree: WatchedTree,
  path: string,
  type: number,
  watcher: Watcher,
): boolean {
  return watchesOf(tree, type).filter((watches) => watches.remove(path, watcher)).length > 0;
}

function watchesOf(tree: WatchedTree, type: number): readonly Watches[] {
  switch (type) {
    case WatcherType.children:
      return [tree.childWatches];
    case WatcherType.data:
      return [tree.dataWatches];
    case WatcherType.any:
      return [tree.childWatches, tree.dataWatches];
    default:
      throw new ProtocolError(`watches of type ${type}`);
  }
}
