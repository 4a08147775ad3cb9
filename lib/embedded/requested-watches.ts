import { AddWatchMode, EventType, ProtocolError, WatcherType } from '../protocol/index.js';
import type { DataTree } from './data-tree.js';
import type { Watcher, Watches } from './watches.js';

/** The watches of a reconnected client, and the last zxid it has seen. */
interface KnownWatches {
  readonly relativeZxid: number;
  readonly dataWatches: readonly string[];
  readonly existWatches: readonly string[];
  readonly childWatches: readonly string[];
  readonly persistentWatches?: readonly string[];
  readonly persistentRecursiveWatches?: readonly string[];
}

/** Sets the watches again, and notifies those that missed a change. */
export function setWatches(tree: DataTree, known: KnownWatches, watcher: Watcher): void {
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
export function addWatch(tree: DataTree, path: string, mode: number, watcher: Watcher): void {
  if (mode !== AddWatchMode.persistent && mode !== AddWatchMode.persistentRecursive) {
    throw new ProtocolError(`a watch of mode ${mode}`);
  }
  const lasting = mode === AddWatchMode.persistent ? 'persistent' : 'recursive';
  tree.dataWatches.add(path, watcher, lasting);
  tree.childWatches.add(path, watcher, lasting);
}

/** Returns whether the path has a watch. Like the real server, counts watches of every client. */
export function hasWatch(tree: DataTree, path: string, type: number): boolean {
  const watches = watchesOf(tree, type);
  if (path === '') return false;
  if (!path.includes('/')) throw new ProtocolError(`watches of the path ${path}`);
  return watches.some((kind) => kind.has(path));
}

/** Returns false if the client has no such watch. */
export function removeWatch(tree: DataTree, path: string, type: number, watcher: Watcher): boolean {
  return watchesOf(tree, type).filter((watches) => watches.remove(path, watcher)).length > 0;
}

function watchesOf(tree: DataTree, type: number): readonly Watches[] {
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
